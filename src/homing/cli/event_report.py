"""Events as text for people and as JSON for programs; a payload only where somebody asked for it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from homing.cli.output import show_json, show_list, show_text
from homing.cli.words import moment, name
from homing.clock import SystemClock
from homing.errors import UnknownId
from homing.harmless import clean, clean_line
from homing.ledger.ledger import Row
from homing.operations.events import EventLine, EventPage, EventState, Lineage

_PAGE = ("event", "recorded", "state", "topic", "aggregate", "")
_DELIVERIES = ("consumer", "queue", "generation", "outcome", "opened", "settled", "")
_DEATHS = ("letter", "consumer", "generation", "died", "kind", "attempts", "closed", "error")
_DELIVERY = ("consumer", "queue", "job_name", "origin", "generation", "outcome", "opened_at", "settled_at", "check_at")
_DEATH = (
    "id",
    "consumer",
    "generation",
    "kind",
    "error_class",
    "error_text",
    "attempts_made",
    "failed_at",
    "closed_at",
)
_MOST_HEADERS = 2_000


def show_page(page: EventPage, *, as_json: bool) -> None:
    """A page of events, and how to come to the next."""
    now = SystemClock().now()
    if as_json:
        show_json({"events": [_event(event, now) for event in page.events], "after": page.after})
        return
    show_list(_PAGE, [_cells(event, now) for event in page.events])
    if page.after is not None:
        show_text(f"more: --after {page.after}")


def show_lineage(found: Lineage, *, as_json: bool) -> None:
    """One event and what came of it, without its payload."""
    if as_json:
        show_json(_lineage(found))
        return
    _show_event(found)
    show_text("")
    if found.deliveries:
        show_list(_DELIVERIES, [_delivery(row) for row in found.deliveries])
    else:
        show_text("no consumer has a delivery of it")
    if found.deaths:
        show_text("")
        show_list(_DEATHS, [_death(row) for row in found.deaths])


def show_payload(found: Lineage, *, as_json: bool) -> None:
    """The payload alone; `UnknownId` where the event is gone and only its deliveries are left."""
    if found.payload is None:
        raise UnknownId(f"the ledger has no event {found.event_id} any more: its payload is gone")
    payload = json.loads(found.payload)
    if as_json:
        show_json(payload)
    else:
        show_text(clean(json.dumps(payload, indent=2, ensure_ascii=False)))


def _show_event(found: Lineage) -> None:
    event = found.event
    _line("event", str(found.event_id))
    if event is None:
        _line("state", "none: of a job that no relay made, or pruned")
        return
    _line("state", event.state(SystemClock().now()).value)
    _line("topic", name(event.topic))
    _line("aggregate", name(event.aggregate_id) or "none")
    _line("recorded", moment(event.created_at))
    _line("due", moment(event.available_at))
    _line("routed", moment(event.published_at) or "not yet")
    if event.parked_error is not None:
        _line("parked", clean_line(event.parked_error, 400))
    _line("trace", name(found.trace_id) or "none")
    _line("headers", clean_line(json.dumps(found.headers, ensure_ascii=False), _MOST_HEADERS))
    _line("payload", f"{found.payload_bytes:,} bytes, shown by --payload")


def _line(what: str, text: str) -> None:
    show_text(f"{what:<10} {text}")


def _cells(event: EventLine, now: datetime) -> Sequence[str]:
    state = event.state(now)
    return (
        str(event.event_id),
        moment(event.created_at),
        state.value,
        name(event.topic),
        name(event.aggregate_id),
        _note(event, state),
    )


def _note(event: EventLine, state: EventState) -> str:
    match state:
        case EventState.PARKED:
            return clean_line(event.parked_error or "")
        case EventState.SCHEDULED:
            return f"due {moment(event.available_at)}"
        case EventState.UNROUTABLE:
            return "nobody subscribes to its topic"
        case EventState.PUBLISHED | EventState.UNPUBLISHED:
            return ""


def _delivery(row: Row) -> Sequence[str]:
    notes = [
        "" if row["outcome"] else f"looked at {moment(row['check_at'])}",
        "edited payload" if row["edited"] else "",
        f"vanished {row['vanished']} times" if row["vanished"] else "",
    ]
    return (
        name(row["consumer"]),
        name(row["queue"]),
        str(row["generation"]),
        row["outcome"] or "pending",
        moment(row["opened_at"]),
        moment(row["settled_at"]),
        ", ".join(filter(None, notes)),
    )


def _death(row: Row) -> Sequence[str]:
    return (
        str(row["id"]),
        name(row["consumer"]),
        str(row["generation"]),
        moment(row["failed_at"]),
        row["kind"],
        str(row["attempts_made"]),
        f"{row['closed_as']} {moment(row['closed_at'])}" if row["closed_as"] else "open",
        clean_line(f"{row['error_class']}: {row['error_text']}"),
    )


def _event(event: EventLine, now: datetime) -> Mapping[str, Any]:
    return {
        "event": event.event_id,
        "topic": event.topic,
        "state": event.state(now).value,
        "aggregate": event.aggregate_id,
        "recorded_at": event.created_at,
        "available_at": event.available_at,
        "published_at": event.published_at,
        "parked_error": event.parked_error,
    }


def _lineage(found: Lineage) -> Mapping[str, Any]:
    event = {"event": found.event_id} if found.event is None else _event(found.event, SystemClock().now())
    return {
        **event,
        "trace": found.trace_id,
        "headers": found.headers,
        "payload_bytes": found.payload_bytes,
        "deliveries": [
            {key: row[key] for key in (*_DELIVERY, "vanished", "edited")}
            | {"deaths": [_dead(death) for death in found.deaths if death["consumer"] == row["consumer"]]}
            for row in found.deliveries
        ],
    }


def _dead(row: Row) -> Mapping[str, Any]:
    return {key: row[key] for key in (*_DEATH, "closed_as", "closed_by")}
