"""Parked jobs as a worker sees them: those it knows wait again at once, the others are shown."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from homing.queue.parked import ParkedJobs
from homing.queue.port import Engine
from homing.service import Loop, Progress
from homing.worker.catalogue import Catalogue

log = logging.getLogger("homing.worker")

LOOK_SECONDS = 5.0
"""How often a worker looks; the first time when it starts."""


class Unparker:
    """Looks at the parked jobs of some queues.

    A worker of an older version may park what this one knows at any time, so that one look at the start is not enough. `on_unparked` is
    called with the queue right after its jobs wait again: who claims at once is there before the other parks them another time.
    """

    def __init__(
        self, engine: Engine, catalogue: Catalogue, queues: Sequence[str], *, on_unparked: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._queues = queues
        self._on_unparked = on_unparked
        self._strange: dict[str, tuple[ParkedJobs, ...]] = {}
        self.loop = Loop("unpark", self.tick, interval_seconds=LOOK_SECONDS)

    @property
    def strange(self) -> Mapping[str, tuple[ParkedJobs, ...]]:
        """The parked jobs that this worker does not know either, by queue, as of the last look."""
        return {queue: jobs for queue, jobs in self._strange.items() if jobs}

    async def tick(self) -> Progress:
        """Look at every queue."""
        await asyncio.gather(*(self._look(queue) for queue in self._queues))
        return Progress.REST

    async def _look(self, queue: str) -> None:
        parked = await self._engine.parked(queue)
        known = [jobs.kind for jobs in parked if self._catalogue.knows(queue, jobs.kind)]
        if known and (number := await self._engine.unpark(queue, known)):
            self._on_unparked(queue)
            names = ", ".join(sorted({repr(kind.job) for kind in known}))
            log.info("queue %s: %d parked jobs wait again, since this worker knows %s", queue, number, names)
        self._show(queue, tuple(jobs for jobs in parked if jobs.kind not in known))

    def _show(self, queue: str, strange: tuple[ParkedJobs, ...]) -> None:
        """Say once of every kind that it is there, and nothing while it stays."""
        shown = {jobs.kind for jobs in self._strange.get(queue, ())}
        for jobs in strange:
            if jobs.kind not in shown:
                log.warning(
                    "queue %s: %d jobs %r are parked%s and no handler here knows them: they run when a worker that does has started",
                    queue,
                    jobs.count,
                    jobs.kind.job,
                    f" with payloads of version {jobs.kind.version}" if jobs.kind.version else "",
                )
        self._strange[queue] = strange
