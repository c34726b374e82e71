"""What one call of `record` is about to write: decided and checked in full before any connection is looked at."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from homing.errors import RecordError
from homing.events import Event, aggregate_id, check_json, dump_json, encode_payload
from homing.outbox.answer import confirm_ledger
from homing.outbox.counting import count_recorded
from homing.outbox.creating import create_rows
from homing.outbox.headers import headers_for
from homing.schema.statement import Statement, load
from homing.trace import Trace

MAX_EVENTS = 1_000
"""The most events of one call: they travel in one statement, and a handler that needs more can call again."""

MAX_BYTES = 16 * 1024 * 1024
"""The most JSON of one call, in bytes of UTF-8; PostgreSQL holds it in memory several times."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The parameters of the statement `record`, and which ledger has to answer."""

    events: str
    ledger: UUID | None
    topics: Sequence[str] = ()

    def values(self) -> dict[str, object]:
        """The statement's parameters by name."""
        return {"events": self.events, "ledger": None if self.ledger is None else str(self.ledger)}

    @property
    def statement(self) -> Statement:
        """`record`."""
        return load("homing.outbox", "record")

    def answer(self, row: Sequence[Any] | None, database: str | None) -> None:
        """The events are kept, and counted, unless another ledger answered."""
        confirm_ledger(None if row is None else row[0], expected=self.ledger, database=database)
        count_recorded(self.topics)


def prepare(events: Sequence[Event], *, available_at: datetime | None, ledger: UUID | None) -> Recording:
    """Check and encode events; raises `RecordError` or its `PayloadError` for the first that cannot be recorded."""
    if len(events) > MAX_EVENTS:
        raise RecordError(f"{len(events):,} events in one call, more than {MAX_EVENTS:,}: record them in several calls")
    moment = None if available_at is None else _moment(available_at)
    for event in events:
        _require_topic(event)
    rows = create_rows(events, partial(_row, available_at=moment))
    _refuse_two_facts_with_one_id(rows)
    text = dump_json(rows)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise RecordError(f"{size:,} bytes of JSON in one call, more than {MAX_BYTES:,}: record them in several calls")
    return Recording(events=text, ledger=ledger, topics=[row["topic"] for row in rows])


def _require_topic(event: object) -> None:
    if not isinstance(event, Event):
        raise RecordError(f"{event!r} is no event: pass instances of classes that derive from homing.Event")
    if not event.event_type.topic:
        name = type(event).__name__
        raise RecordError(f'{name} has no topic: declare it as class {name}(Event, topic="…")')


def _row(event: Event, trace: Trace, *, available_at: str | None) -> dict[str, Any]:
    declared = event.event_type
    aggregate = aggregate_id(event)
    check_json(aggregate, f"{type(event).__name__}.{declared.aggregate}")
    return {
        "id": str(event.event_id),
        "topic": declared.topic,
        "aggregateId": aggregate,
        "payload": encode_payload(event),
        "headers": headers_for(declared, trace),
        "availableAt": available_at,
    }


def _moment(available_at: datetime) -> str:
    if available_at.utcoffset() is None:
        raise RecordError(f"available_at={available_at!r} has no time zone: use datetime.now(UTC) + delay")
    return available_at.isoformat()


def _refuse_two_facts_with_one_id(rows: Sequence[Mapping[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for row in rows:
        content = json.dumps([row["topic"], row["payload"]], sort_keys=True)
        if seen.setdefault(row["id"], content) != content:
            raise RecordError(
                f"two different events of topic {row['topic']!r} have the id {row['id']}: only one would be kept; "
                "build the second one instead of copying the first"
            )
