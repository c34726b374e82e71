"""Handing jobs to the engine: bulk, per queue, idempotent by id, with nothing written after success."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from homing.errors import HomingError, ServerUnavailable
from homing.ledger.ledger import Ledger, Row
from homing.queue.job import NewJob
from homing.queue.port import Engine, Refused
from homing.relay.jobs import job_of
from homing.relay.watch import QueueWatch
from homing.schema.statement import load

log = logging.getLogger("homing.relay")

UNDISPATCHED = load("homing.relay", "undispatched")


class Dispatcher:
    """Adds the jobs of opened deliveries to their queues; what cannot be added is found again by the look."""

    def __init__(self, ledger: Ledger, engine: Engine, watch: QueueWatch) -> None:
        self._ledger = ledger
        self._engine = engine
        self._watch = watch

    async def dispatch(self, rows: Iterable[Row]) -> int:
        """Dispatch deliveries (rows of `route.sql` or `payloads.sql`); the number of jobs that are in the engine now.

        Queues are served at once and fail alone: an engine that does not answer for one of them costs the others nothing. No
        transaction is open while the engine is called.
        """
        by_queue: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_queue[row["queue"]].append(row)
        return sum(await asyncio.gather(*(self._add(queue, page) for queue, page in by_queue.items())))

    async def _add(self, queue: str, rows: Sequence[Row]) -> int:
        if queue not in self._watch.epochs:
            await self._take_back(queue, rows)
            return 0
        jobs = _jobs_of(rows)
        try:
            results = await self._engine.add(queue, jobs)
        except HomingError as error:
            self._watch.doubt(queue)
            log.warning("queue %s: %d jobs wait for the look: %s", queue, len(jobs), error)
            await self._take_back(queue, rows)
            return 0
        refused = [
            (job, result.error) for job, result in zip(jobs, results, strict=True) if isinstance(result, Refused)
        ]
        for job, reason in refused:
            log.error("queue %s: the engine refused job %s: %s", queue, job.id, reason)
        return len(jobs) - len(refused)

    async def _take_back(self, queue: str, rows: Sequence[Row]) -> None:
        """Say that these have no job. Where that fails too, they are looked at by time alone."""
        try:
            await self._ledger.fetch(
                UNDISPATCHED,
                event_ids=[row["event_id"] for row in rows],
                consumers=[row["consumer"] for row in rows],
                generations=[row["generation"] for row in rows],
            )
        except ServerUnavailable as error:
            log.warning("queue %s: %d deliveries wait until their time: %s", queue, len(rows), error)


def _jobs_of(rows: Sequence[Row]) -> list[NewJob]:
    """The jobs of these rows; one that cannot be made is reported and left out, so that it holds up no other."""
    jobs: list[NewJob] = []
    for row in rows:
        try:
            jobs.append(job_of(row))
        except (ValueError, TypeError, LookupError):
            log.exception("delivery %s for %s: no job can be made of it", row["event_id"], row["consumer"])
    return jobs
