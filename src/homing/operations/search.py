"""Finding an event by what people know of it: the order it belongs to, its trace, a field of its payload, or who consumes it.

No index exists for looking alone: each page walks over a bounded number of the newest rows, and says where to go on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from homing.ids import DeliveryKey
from homing.ledger.actions import Statements
from homing.ledger.ledger import Row
from homing.operations.events import EventLine, read_line
from homing.schema.statement import load

_HERE = "homing.operations"
SEARCH_EVENTS = load(_HERE, "search_events")
SEARCH_DELIVERIES = load(_HERE, "search_deliveries")
DELIVERIES_OF = load(_HERE, "deliveries_of")

WALK = 20_000
"""Rows that one page looks at."""

MOST_DELIVERIES = 2_000
"""Deliveries that are shown beside the events of one page."""

LAST = UUID(int=2**128 - 1)

Outcome = Literal["pending", "done", "dead", "cancelled"]

OUTCOMES: tuple[str, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an event must have; `path` and `value` are a field of its payload and its value as text, `None` = whatever."""

    topic: str | None = None
    aggregate_id: str | None = None
    trace_id: str | None = None
    path: tuple[str, ...] | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLine:
    """A delivery as a list shows it; `outcome` is `None` while it is pending."""

    event_id: UUID
    consumer: str
    queue: str
    job_name: str
    generation: int
    outcome: str | None
    opened_at: datetime
    settled_at: datetime | None

    @property
    def job_id(self) -> str:
        """The id of its job."""
        return DeliveryKey(self.event_id, self.consumer, self.generation).job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvent:
    """An event that was found, with its trace and its deliveries."""

    line: EventLine
    trace_id: str | None
    deliveries: tuple[DeliveryLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """Some events. `after` goes on behind them, `None` = that was all; `walked`: how many were looked at."""

    events: tuple[FoundEvent, ...]
    after: UUID | None
    walked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDeliveries:
    """Some deliveries of a consumer; `after` and `walked` as for events."""

    deliveries: tuple[DeliveryLine, ...]
    after: tuple[UUID, str] | None
    walked: int


async def search_events(
    where: Statements, wanted: Wanted, *, after: UUID | None = None, most: int = 50, walk: int = WALK
) -> FoundEvents:
    """A page of events that have everything that is wanted, newest first. A page may be short or empty and not the last."""
    rows = await where.fetch(
        SEARCH_EVENTS,
        topic=wanted.topic,
        aggregate_id=wanted.aggregate_id,
        trace_id=wanted.trace_id,
        path=None if wanted.path is None else list(wanted.path),
        value=wanted.value,
        before=after or LAST,
        walk=walk,
        page=most,
    )
    found = [row for row in rows if row["event_id"] is not None]
    deliveries = await deliveries_of(where, [row["event_id"] for row in found])
    events = tuple(
        FoundEvent(line=read_line(row), trace_id=row["trace_id"], deliveries=tuple(deliveries.get(row["event_id"], ())))
        for row in found
    )
    end = found[-1]["event_id"] if len(found) == most else rows[0]["last"] if rows[0]["walked"] == walk else None
    return FoundEvents(events=events, after=end, walked=rows[0]["walked"])


async def search_deliveries(
    where: Statements,
    consumer: str,
    *,
    outcome: str | None = None,
    after: tuple[UUID, str] | None = None,
    most: int = 50,
    walk: int = WALK,
) -> FoundDeliveries:
    """A page of a consumer's deliveries, those of the newest events first. A page may be short or empty and not the last."""
    before, before_consumer = after or (LAST, "")
    rows = await where.fetch(
        SEARCH_DELIVERIES,
        consumer=consumer,
        outcome=outcome,
        before=before,
        before_consumer=before_consumer,
        walk=walk,
        page=most,
    )
    found = tuple(_delivery(row) for row in rows if row["event_id"] is not None)
    if len(found) == most:
        end: tuple[UUID, str] | None = (found[-1].event_id, found[-1].consumer)
    else:
        end = (rows[0]["last"], rows[0]["last_consumer"]) if rows[0]["walked"] == walk else None
    return FoundDeliveries(deliveries=found, after=end, walked=rows[0]["walked"])


async def deliveries_of(where: Statements, event_ids: Sequence[UUID]) -> Mapping[UUID, list[DeliveryLine]]:
    """The deliveries of some events, by event."""
    found: dict[UUID, list[DeliveryLine]] = {}
    if event_ids:
        for row in await where.fetch(DELIVERIES_OF, event_ids=list(event_ids), most=MOST_DELIVERIES):
            found.setdefault(row["event_id"], []).append(_delivery(row))
    return found


def _delivery(row: Row) -> DeliveryLine:
    return DeliveryLine(
        event_id=row["event_id"],
        consumer=row["consumer"],
        queue=row["queue"],
        job_name=row["job_name"],
        generation=row["generation"],
        outcome=row["outcome"],
        opened_at=row["opened_at"],
        settled_at=row["settled_at"],
    )
