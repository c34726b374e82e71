"""Handing jobs to the engine: bulk, per queue, idempotent by id; after success only what was merely to be handed over is written."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from homing.deadletters.deadletters import DeadLetters
from homing.deadletters.report import ErrorReport, report_error, report_text
from homing.errors import HomingError, ServerUnavailable
from homing.ledger.ledger import Ledger, Row
from homing.metrics import Metrics, declared
from homing.queue.job import NewJob
from homing.queue.port import AddResult, Engine, Refused
from homing.relay.jobs import Unmakeable, try_job
from homing.relay.letters import death_of
from homing.relay.watch import QueueWatch
from homing.schema.statement import Statement, load
from homing.trace import find_spans
from homing.trace.conventions import BATCH_COUNT, ENGINE, Operation, server_attributes

log = logging.getLogger("homing.relay")

UNDISPATCHED = load("homing.relay", "undispatched")
SETTLE_OTHERS = load("homing.relay", "settle_others")


class Dispatcher:
    """Adds the jobs of opened deliveries to their queues; what cannot be added now is found again by the look.

    A delivery of which no job can be made, or whose job no engine would ever take, is dead at once and shown: trying again changes nothing.
    """

    def __init__(self, ledger: Ledger, engine: Engine, watch: QueueWatch, metrics: Metrics) -> None:
        self._ledger = ledger
        self._engine = engine
        self._watch = watch
        self._metrics = metrics
        self._dead_letters = DeadLetters(ledger, metrics)

    async def dispatch(self, rows: Iterable[Row]) -> list[Row]:
        """Dispatch deliveries (rows of `route.sql` or `payloads.sql`); those whose jobs are in the engine now.

        Queues are served at once and fail alone: an engine that does not answer for one of them costs the others nothing. No
        transaction is open while the engine is called.
        """
        by_queue: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_queue[row["queue"]].append(row)
        pages = await asyncio.gather(*(self._dispatch(queue, page) for queue, page in by_queue.items()))
        return [row for page in pages for row in page]

    async def _dispatch(self, queue: str, rows: Sequence[Row]) -> list[Row]:
        taken = await self._hand_over(queue, rows)
        self._metrics.count(declared.RELAY_DISPATCHED, queue, "added", by=len(taken))
        self._metrics.count(declared.RELAY_DISPATCHED, queue, "failed", by=len(rows) - len(taken))
        return taken

    async def _hand_over(self, queue: str, rows: Sequence[Row]) -> list[Row]:
        if queue not in self._watch.epochs:
            await self._take_back(queue, rows)
            return []
        made: list[tuple[Row, NewJob]] = []
        for row in rows:
            job = try_job(row)
            if isinstance(job, Unmakeable):
                await self._bury(row, report_error(job.error))
            else:
                made.append((row, job))
        answers = await self._add(queue, [job for _, job in made])
        if answers is None:
            await self._take_back(queue, [row for row, _ in made])
            return []
        return await self._note(queue, [(row, answer) for (row, _), answer in zip(made, answers, strict=True)])

    async def _add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult] | None:
        """The engine's answers; `None` when it did not answer, and then the queue rests for a while."""
        try:
            with self._span(queue, jobs):
                return await self._engine.add(queue, jobs)
        except HomingError as error:
            self._watch.doubt(queue)
            log.warning("queue %s: %d jobs wait for the look: %s", queue, len(jobs), error)
            return None

    def _span(self, queue: str, jobs: Sequence[NewJob]) -> AbstractContextManager[object]:
        """One span for the batch, linked to what created each job; nothing where no SDK is set up."""
        spans = find_spans()
        if spans is None or not jobs:
            return nullcontext()
        return spans.start(
            Operation.DISPATCH,
            queue,
            {BATCH_COUNT: len(jobs), ENGINE: self._engine.name, **server_attributes(self._engine.address)},
            links=[job.traceparent for job in jobs],
        )

    async def _note(self, queue: str, answers: Sequence[tuple[Row, AddResult]]) -> list[Row]:
        """Act on what the engine said of each job; the rows of those it has."""
        put_off: list[Row] = []
        taken: list[Row] = []
        for row, answer in answers:
            match answer:
                case Refused(for_good=True, error=reason):
                    await self._bury(row, report_text("JobRefused", reason))
                case Refused(error=reason):
                    log.error("queue %s: %s; it is tried again", queue, reason)
                    put_off.append(row)
                case _:
                    taken.append(row)
        if put_off:
            self._watch.doubt(queue)
            await self._take_back(queue, put_off)
        else:
            self._watch.trust(queue)
        await self._settle_handed_over(queue, [row for row in taken if row["mode"] == "elsewhere"])
        return taken

    async def _settle_handed_over(self, queue: str, rows: Sequence[Row]) -> None:
        """More than handing over was never promised; where this fails, the look settles them."""
        if rows:
            settled = await self._write(queue, SETTLE_OTHERS, rows, results=[None] * len(rows))
            count_settled(self._metrics, settled)

    async def _take_back(self, queue: str, rows: Sequence[Row]) -> None:
        """Say that these have no job. Where that fails too, they are looked at by time alone."""
        await self._write(queue, UNDISPATCHED, rows)

    async def _write(self, queue: str, statement: Statement, rows: Sequence[Row], **values: object) -> Sequence[Row]:
        try:
            return await self._ledger.fetch(
                statement,
                event_ids=[row["event_id"] for row in rows],
                consumers=[row["consumer"] for row in rows],
                generations=[row["generation"] for row in rows],
                **values,
            )
        except ServerUnavailable as error:
            log.warning("queue %s: %d deliveries wait until their time: %s", queue, len(rows), error)
            return []

    async def _bury(self, row: Row, error: ErrorReport) -> None:
        death = death_of(row, "failed", error)
        try:
            letter = await self._dead_letters.bury(death)
        except ServerUnavailable as away:
            log.warning("delivery %s cannot be handed over and is not buried yet: %s", death.job_id, away)
        else:
            log.error("delivery %s cannot be handed over, letter %s: %s", death.job_id, letter, error.summary)


def count_settled(metrics: Metrics, rows: Sequence[Row]) -> None:
    """Count the deliveries of other systems that are done (rows of `settle_others.sql`)."""
    for row in rows:
        metrics.count(declared.SETTLED, row["consumer"], "done")
