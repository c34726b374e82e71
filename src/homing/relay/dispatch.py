"""Handing jobs to the engine: bulk, per queue, idempotent by id, with nothing written after success."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from homing.errors import ServerUnavailable
from homing.ledger.ledger import Row
from homing.queue.job import NewJob
from homing.queue.port import Engine, Refused
from homing.relay.jobs import job_of
from homing.relay.watch import QueueWatch

log = logging.getLogger("homing.relay")


class Dispatcher:
    """Adds the jobs of opened deliveries to their queues; what cannot be added is found again by the look."""

    def __init__(self, engine: Engine, watch: QueueWatch) -> None:
        self._engine = engine
        self._watch = watch

    async def dispatch(self, rows: Iterable[Row]) -> int:
        """Dispatch deliveries (rows of `route.sql` or `payloads.sql`); the number of jobs that are in the engine now.

        Queues are served at once and fail alone: an engine that does not answer for one of them costs the others nothing. No
        transaction is open while this runs.
        """
        by_queue: dict[str, list[NewJob]] = defaultdict(list)
        for row in rows:
            by_queue[row["queue"]].append(job_of(row))
        return sum(await asyncio.gather(*(self._add(queue, jobs) for queue, jobs in by_queue.items())))

    async def _add(self, queue: str, jobs: Sequence[NewJob]) -> int:
        if queue not in self._watch.epochs:
            return 0
        try:
            results = await self._engine.add(queue, jobs)
        except ServerUnavailable as error:
            self._watch.doubt(queue)
            log.warning("queue %s: %d jobs wait for the look: %s", queue, len(jobs), error)
            return 0
        refused = [
            (job, result.error) for job, result in zip(jobs, results, strict=True) if isinstance(result, Refused)
        ]
        for job, reason in refused:
            log.error("queue %s: the engine refused job %s: %s", queue, job.id, reason)
        return len(jobs) - len(refused)
