"""The four questions, answered at once: is work flowing, how old is the oldest, what is failing, what is nobody's."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from homing.ledger.ledger import Ledger, Row
from homing.operations.collector import look_over
from homing.operations.consumers import ROUTES, Consumer, put_together
from homing.operations.overview import Overview, TopicState
from homing.operations.verdict import Level, Verdict, judge, next_relay
from homing.queue.browse import SteeredEngine
from homing.schema.statement import load

_HERE = "homing.operations"
FAILING = load(_HERE, "failing")
TOTALS = load(_HERE, "totals")

LATELY_SECONDS = 3600.0
"""How long ago a death is of today's troubles."""

COUNTED = 10_000
"""Rows of a table that are counted; where there are more, the number is PostgreSQL's estimate."""

_LETTERS = 10_000
_GROUPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Deaths of one consumer and class of error within the last hour; `open` are not redriven yet, `letter` is the newest."""

    consumer: str
    error_class: str
    deaths: int
    open: int
    newest_seconds: float
    letter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """How many rows a table holds; `about`: an estimate."""

    table: str
    rows: int
    about: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One look at everything, and its judgement."""

    overview: Overview
    verdict: Verdict
    failing: tuple[Failing, ...]
    consumers: tuple[Consumer, ...]
    totals: tuple[Total, ...]

    @property
    def unroutable(self) -> tuple[TopicState, ...]:
        """Topics with events that are due, or will be, and no consumer."""
        return tuple(
            topic for topic in self.overview.topics if not topic.routable and (topic.claimable or topic.scheduled)
        )

    @property
    def unowned(self) -> tuple[Consumer, ...]:
        """Consumers that no live process knows."""
        return tuple(consumer for consumer in self.consumers if consumer.is_unowned)


async def read_status(ledger: Ledger, engine: SteeredEngine, before: Overview | None = None) -> Status:
    """One look, judged against an earlier one where there is one: what moved since then does not stand still.

    An engine that is silent is part of it; a ledger that is silent raises `ServerUnavailable`.
    """
    overview, failing, routes, totals = await asyncio.gather(
        look_over(ledger, engine),
        ledger.fetch(FAILING, since_seconds=LATELY_SECONDS, walk=_LETTERS, page=_GROUPS),
        ledger.fetch(ROUTES),
        ledger.fetch(TOTALS, most=COUNTED),
    )
    return Status(
        overview=overview,
        verdict=judge(overview, before),
        failing=tuple(_failing(row) for row in failing),
        consumers=put_together(routes, overview.consumers, overview.processes),
        totals=_totals(totals),
    )


async def read_sure_status(ledger: Ledger, engine: SteeredEngine, wait: Callable[[], Awaitable[None]]) -> Status:
    """One look, and after `wait` a second one where the first alone cannot tell a standstill from a relay that catches up."""
    status = await read_status(ledger, engine)
    overview = status.overview
    certain = overview.engine_error is not None or next_relay(overview.processes) is None
    if certain or status.verdict.level is not Level.STALLED:
        return status
    await wait()
    return await read_status(ledger, engine, overview)


def _failing(row: Row) -> Failing:
    return Failing(
        consumer=row["consumer"],
        error_class=row["error_class"],
        deaths=row["deaths"],
        open=row["open"],
        newest_seconds=row["newest_seconds"],
        letter=row["letter"],
    )


def _totals(rows: Sequence[Row]) -> tuple[Total, ...]:
    row = rows[0]
    return tuple(
        Total(table=table, rows=row[table], about=row[f"{table}_about"])
        for table in ("events", "deliveries", "letters")
    )
