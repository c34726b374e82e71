"""Jobs whose worker is gone wait again: looked for at every queue's own pace."""

import logging

from homing.metrics import Metrics, declared
from homing.metrics.bounded import UNKNOWN
from homing.queue.port import Engine
from homing.service import Loop, Progress
from homing.worker.catalogue import Catalogue

log = logging.getLogger("homing.worker")


class Rescuer:
    """Looks every `interval_seconds` for the expired leases of one queue; any number of workers may."""

    def __init__(
        self, queue: str, engine: Engine, catalogue: Catalogue, metrics: Metrics, *, interval_seconds: float
    ) -> None:
        self._queue = queue
        self._engine = engine
        self._catalogue = catalogue
        self._metrics = metrics
        self._interval_seconds = interval_seconds
        self.loop = Loop(f"rescue:{queue}", self.tick, interval_seconds=interval_seconds)

    async def tick(self) -> Progress:
        """Make them wait again, each with a line and a count."""
        for job_id in await self._engine.rescue(self._queue, self._interval_seconds):
            handler = self._catalogue.find_by_id(job_id)
            self._metrics.count(declared.RESCUED, self._queue, UNKNOWN if handler is None else handler.job_name)
            log.error(
                "queue %s: job %s lost its worker and waits again", self._queue, job_id, extra={"rescued": job_id}
            )
        return Progress.REST
