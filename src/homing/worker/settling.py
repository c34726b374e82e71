"""Settling: in the handler's transaction, or in groups right after handlers that ran without one."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.ledger.statements import READ, SETTLE, SETTLE_GROUP, SETTLE_JOB, SETTLE_JOB_GROUP, as_rows
from homing.records import quickly_made
from homing.schema.statement import Statement
from homing.worker.coalescer import Coalescer
from homing.worker.run import Run
from homing.worker.spans import settle_spans

log = logging.getLogger("homing.worker")

_AT_ONCE = 3
"""Statements that are on their way at once: while some wait for the disk, the server works on another."""

Row = dict[str, object]
"""A row as a statement takes it."""


class HasSettled(Protocol):
    """A run whose effect has happened; `result` is JSON text."""

    @property
    def run(self) -> Run: ...

    @property
    def result(self) -> str: ...


@quickly_made
@dataclass(frozen=True, slots=True)
class Settled:
    """The same, and nothing else."""

    run: Run
    result: str


class Settler:
    """Settles many deliveries in one statement."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._deliveries: Coalescer[HasSettled, None] = Coalescer(self._settle_deliveries, flights=_AT_ONCE)
        self._jobs: Coalescer[HasSettled, None] = Coalescer(self._settle_jobs, flights=_AT_ONCE)

    async def warm_up(self, connections: int) -> None:
        """Make so many connections ready for the statements of groups, if the server has them to give: whoever has fewer works with those."""
        nothing: Row = {"rows": as_rows([])}
        calls = [(statement, nothing) for statement in (READ, SETTLE_GROUP, SETTLE_JOB_GROUP)]
        try:
            await self._ledger.warm_up(connections, *calls)
        except ServerUnavailable as error:
            log.info("fewer connections than wanted are ready for the first jobs: %s", error)

    async def settle_surely(self, group: Sequence[HasSettled]) -> None:
        """Mark deliveries done; committed when this returns.

        Their effects have happened, so that this is not given up while the process lives: their leases are renewed meanwhile.
        """
        wait_seconds = 0.1
        while True:
            try:
                await self._settle(group)
            except ServerUnavailable as error:
                if wait_seconds == 0.1:
                    for each in group:
                        log.warning("job %s is done and waits to be settled: %s", each.run.job.lease.job_id, error)
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(wait_seconds * 2, 5.0)
            else:
                return

    async def _settle(self, group: Sequence[HasSettled]) -> None:
        jobs = [each for each in group if each.run.generation is None]
        if len(jobs) < len(group):
            await self._deliveries.ask_all([each for each in group if each.run.generation is not None])
        if jobs:
            await self._jobs.ask_all(jobs)

    async def _settle_deliveries(self, group: Sequence[HasSettled]) -> list[None]:
        with settle_spans(settled.run for settled in group):
            await self._write(SETTLE_GROUP, [_row(each) for each in group])
        return [None] * len(group)

    async def _settle_jobs(self, group: Sequence[HasSettled]) -> list[None]:
        with settle_spans(settled.run for settled in group):
            await self._write(SETTLE_JOB_GROUP, [_job_row(each) for each in group])
        return [None] * len(group)

    async def _write(self, statement: Statement, rows: Sequence[Row]) -> None:
        """All of them in one statement. What is refused is written in halves: many large results may be too much at once, and one that cannot
        be kept must not leave the others unwritten, whose effects have happened too. Its error is raised when all others are written.
        """  # noqa: D205 - one thought
        try:
            await self._ledger.fetch(statement, rows=as_rows(rows))
        except ServerUnavailable:
            raise
        except Exception:
            if len(rows) == 1:
                raise
            half = len(rows) // 2
            try:
                await self._write(statement, rows[:half])
            finally:
                await self._write(statement, rows[half:])


def _row(settled: HasSettled) -> Row:
    run = settled.run
    return {"event_id": run.event_id, "consumer": run.consumer, "result": kept_result(settled.result)}


def _job_row(settled: HasSettled) -> Row:
    run = settled.run
    return {
        "event_id": run.event_id,
        "consumer": run.consumer,
        "queue": run.job.lease.queue,
        "job_name": run.job.name,
        "result": kept_result(settled.result),
    }


def kept_result(result: str) -> str | None:
    """The result as the ledger keeps it: nothing for null."""
    return None if result == "null" else result


def settle_call(run: Run) -> dict[str, Any]:
    """The statement that settles a run in its handler's transaction, with its values."""
    if run.generation is not None:
        return {
            "statement": SETTLE,
            "event_id": run.event_id,
            "consumer": run.consumer,
            "generation": run.generation,
        }
    return {
        "statement": SETTLE_JOB,
        "event_id": run.event_id,
        "consumer": run.consumer,
        "queue": run.job.lease.queue,
        "job_name": run.job.name,
    }
