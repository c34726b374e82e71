"""One dead letter in full: as JSON for programs, and as text for people."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from homing.cli.output import show_text
from homing.harmless import clean
from homing.ledger.ledger import Row

_LETTER = (
    "id",
    "consumer",
    "kind",
    "failed_at",
    "attempts_made",
    "fingerprint",
    "queue",
    "job_name",
    "job_id",
    "generation",
)
_CLOSED = ("closed_at", "closed_as", "closed_by", "closed_why", "campaign")
_DEATH = ("id", "generation", "kind", "error_class", "error_text", "failed_at", "closed_at", "closed_as", "closed_by")


def letter_as_json(row: Row, history: Sequence[Row]) -> dict[str, Any]:
    """The letter, its error, what its job carried, its delivery and its event as they are now, and all deaths of the delivery.

    `payload` is what the next run would get: edited by a person, or the event's; null when the event is gone.
    """
    edited = _parsed(row["edited"])
    return {
        **{name: row[name] for name in (*_LETTER, *_CLOSED)},
        "error": _parsed(row["error"]),
        "event_id": row["event_id"],
        "topic": row["topic"],
        "recorded_at": row["recorded_at"],
        "headers": _parsed(row["headers"]),
        "payload": _parsed(row["payload"]) if edited is None else edited["payload"],
        "edited": edited is not None,
        "delivery": _delivery(row),
        "data": _parsed(row["data"]),
        "deaths": [{name: death[name] for name in _DEATH} for death in history],
    }


def show_as_text(shown: Mapping[str, Any]) -> None:
    """Everything of it, cleaned of what a terminal would obey."""
    for name in _LETTER:
        _line(name, shown[name])
    for name in _CLOSED:
        if shown[name] is not None:
            _line(name, shown[name])
    _line("event", f"{shown['event_id']} ({shown['topic'] or 'pruned'})")
    _line("delivery", _state(shown["delivery"]))
    error = shown["error"]
    for name in ("class", "reason", "starts", "text", "frame"):
        if error.get(name) not in (None, ""):
            _line(f"error {name}", error[name])
    if error.get("stack"):
        _block("stack", str(error["stack"]))
    _block("data", json.dumps(shown["data"], indent=2, ensure_ascii=False))
    if shown["edited"]:
        _block("edited payload", json.dumps(shown["payload"], indent=2, ensure_ascii=False))
    if len(shown["deaths"]) > 1:
        _block("deaths", "\n".join(_death(death) for death in shown["deaths"]))


def _delivery(row: Row) -> dict[str, object] | None:
    if row["row_generation"] is None:
        return None
    return {
        "generation": row["row_generation"],
        "outcome": row["outcome"],
        "opened_at": row["opened_at"],
        "settled_at": row["settled_at"],
    }


def _state(delivery: Mapping[str, Any] | None) -> str:
    if delivery is None:
        return "gone"
    return f"{delivery['outcome'] or 'pending'}, generation {delivery['generation']}"


def _death(death: Mapping[str, Any]) -> str:
    closed = f", {death['closed_as']} {_text(death['closed_at'])}" if death["closed_as"] else ", open"
    what = f"{death['error_class']}: {death['error_text']}".partition("\n")[0][:200]
    return f"{death['id']} generation {death['generation']} {_text(death['failed_at'])} {death['kind']}{closed}: {what}"


def _line(name: str, value: object) -> None:
    show_text(f"{name.replace('_', ' '):<14} {clean(_text(value))}")


def _block(name: str, text: str) -> None:
    show_text(f"\n{name}")
    show_text(clean(text.rstrip()))


def _text(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else str(value)


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)
