"""Recorded events as people look for them: pages by state, one with its whole lineage, and the release of parked ones."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from uuid import UUID

from homing.errors import Refused, UnknownId
from homing.ids import first_id_at
from homing.ledger.actions import Person, Statements, keep_action
from homing.ledger.ledger import Ledger, Row
from homing.schema.statement import load

_HERE = "homing.operations"
EVENTS = load(_HERE, "events")
UNPUBLISHED = load(_HERE, "unpublished")
UNROUTED = load(_HERE, "unrouted")
PARKED = load(_HERE, "parked")
EVENT = load(_HERE, "event")
LINEAGE = load(_HERE, "lineage")
EVENT_DEATHS = load(_HERE, "event_deaths")
RELEASE = load(_HERE, "release")

WALK = 20_000
"""Events that one page looks at, at most, where a condition has no index: rare ones are found page by page, each at a bounded cost."""

MOST_DEATHS = 1000

_AFTER_ALL = UUID(int=2**128 - 1)
_BEFORE_ALL = UUID(int=0)


class EventState(Enum):
    """Where an event is on its way to its consumers; `unpublished` are scheduled and unroutable ones too."""

    UNPUBLISHED = "unpublished"
    SCHEDULED = "scheduled"
    UNROUTABLE = "unroutable"
    PARKED = "parked"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One recorded event, without what it carries. `routable`: whether somebody subscribes to its topic."""

    event_id: UUID
    topic: str
    aggregate_id: str | None
    created_at: datetime
    available_at: datetime
    published_at: datetime | None
    parked_error: str | None
    routable: bool

    def state(self, now: datetime) -> EventState:
        """The narrowest state that fits it."""
        if self.published_at is not None:
            return EventState.PUBLISHED
        if self.parked_error is not None:
            return EventState.PARKED
        if self.available_at > now:
            return EventState.SCHEDULED
        return EventState.UNPUBLISHED if self.routable else EventState.UNROUTABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some events. `after` asks for the next page; `None` when this is the last one. A page may be empty and not the last."""

    events: tuple[EventLine, ...]
    after: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """One event and all that came of it; `event` is `None` for jobs of other producers, and after pruning.

    `payload` is JSON text where it was asked for; `deliveries` and `deaths` are rows of `lineage.sql` and `event_deaths.sql`.
    """

    event_id: UUID
    event: EventLine | None
    headers: Any
    payload: str | None
    payload_bytes: int
    deliveries: Sequence[Row]
    deaths: Sequence[Row]

    @property
    def trace_id(self) -> str | None:
        """The trace that it was recorded in, where its headers say so."""
        trace = self.headers.get("traceId") if isinstance(self.headers, dict) else None
        return trace if isinstance(trace, str) else None


async def list_events(
    where: Statements,
    *,
    topic: str | None = None,
    state: EventState | None = None,
    since: datetime | None = None,
    after: UUID | None = None,
    most: int = 50,
) -> EventPage:
    """A page of events: newest first; those not routed by topic, in each the first due first.

    `since`: recorded since then; for those not routed, due since then. `after`: the last id of the page before; `UnknownId` when that
    event, whose place is where the next page begins, is gone.
    """
    if state is None or state is EventState.PUBLISHED:
        return await _walk(where, topic, published=None if state is None else True, since=since, after=after, most=most)
    if after is not None and not await where.fetch(EVENT, event_id=after, payload=False):
        raise UnknownId(f"there is no event {after} after which a page could begin: start again without it")
    if state is EventState.PARKED:
        first = _BEFORE_ALL if since is None else first_id_at(since)
        rows = await where.fetch(PARKED, topic=topic, since=first, after=after, page=most)
    elif state is EventState.UNPUBLISHED and topic is None and since is None:
        rows = await where.fetch(UNPUBLISHED, after=after, page=most)
    else:
        rows = await where.fetch(UNROUTED, topic=topic, state=state.value, since=since, after=after, page=most)
    return EventPage(events=tuple(map(read_line, rows)), after=rows[-1]["event_id"] if len(rows) == most else None)


async def show_event(where: Statements, event_id: UUID, *, payload: bool = False) -> Lineage:
    """One event, its deliveries and their deaths; `UnknownId` when the ledger has none of them."""
    events = await where.fetch(EVENT, event_id=event_id, payload=payload)
    deliveries = await where.fetch(LINEAGE, event_id=event_id)
    deaths = await where.fetch(EVENT_DEATHS, event_id=event_id, most=MOST_DEATHS)
    if not (events or deliveries or deaths):
        raise UnknownId(f"there is no event {event_id}, and no delivery of it")
    row = events[0] if events else None
    return Lineage(
        event_id=event_id,
        event=None if row is None else read_line(row),
        headers=None if row is None else json.loads(row["headers"]),
        payload=None if row is None else row["payload"],
        payload_bytes=0 if row is None else row["payload_bytes"],
        deliveries=deliveries,
        deaths=deaths,
    )


async def release(ledger: Ledger, event_ids: Sequence[UUID], person: Person) -> int:
    """Let parked events be routed again, in one transaction that keeps who did it; how many there were.

    Raises `UnknownId` when one of them does not exist, and `Refused` when one is not parked; then none is released.
    """
    async with ledger.transaction() as transaction:
        released = {row["event_id"] for row in await transaction.fetch(RELEASE, event_ids=list(event_ids))}
        others = [event_id for event_id in event_ids if event_id not in released]
        unknown = [str(each) for each in others if not await transaction.fetch(EVENT, event_id=each, payload=False)]
        if unknown:
            raise UnknownId(f"there is no event {', '.join(unknown)}; nothing was released")
        if others:
            raise Refused(f"not parked: {', '.join(map(str, others))}; nothing was released")
        subject = {"events": sorted(map(str, released))}
        await keep_action(transaction, person, "release", subject, affected=len(released))
    return len(released)


async def _walk(
    where: Statements,
    topic: str | None,
    *,
    published: bool | None,
    since: datetime | None,
    after: UUID | None,
    most: int,
) -> EventPage:
    walk = most if topic is None and published is None else max(WALK, most)
    rows = await where.fetch(
        EVENTS,
        topic=topic,
        published=published,
        since=_BEFORE_ALL if since is None else first_id_at(since.astimezone(UTC)),
        before=after or _AFTER_ALL,
        walk=walk,
        page=most,
    )
    found = tuple(read_line(row) for row in rows if row["event_id"] is not None)
    end = found[-1].event_id if len(found) == most else rows[0]["last"] if rows[0]["walked"] == walk else None
    return EventPage(events=found, after=end)


def read_line(row: Row) -> EventLine:
    """An event from a row of any of the statements that list events."""
    return EventLine(
        event_id=row["event_id"],
        topic=row["topic"],
        aggregate_id=row["aggregate_id"],
        created_at=row["created_at"],
        available_at=row["available_at"],
        published_at=row["published_at"],
        parked_error=row["parked_error"],
        routable=row["routable"],
    )
