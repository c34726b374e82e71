"""A queue's settings as the ledger keeps them, in the fields that the engine has for them."""

import json
import logging
from dataclasses import replace
from typing import Any

from homing.queue.port import Limit, QueueSettings, Unsaid

log = logging.getLogger("homing.queue")


def settings_fields(settings: QueueSettings) -> dict[str, int | None]:
    """`concurrency`, `max`, and `duration` in milliseconds; what nobody said is left out. A pause is declared by nobody."""
    fields: dict[str, int | None] = {}
    if not isinstance(settings.concurrency, Unsaid):
        fields["concurrency"] = settings.concurrency
    match settings.limit:
        case None:
            fields |= {"max": None, "duration": None}
        case Limit(jobs=jobs, seconds=seconds):
            fields |= {"max": jobs, "duration": max(1, round(seconds * 1000))}
    return fields


def read_settings(queue: str, text: str) -> QueueSettings:
    """The settings in the ledger's row. Anybody may have written it: what makes no sense counts as not said, with a warning."""
    try:
        fields = dict(json.loads(text))
    except (ValueError, TypeError) as error:
        log.warning("queue %s: its settings %r are not read: %s", queue, text, error)
        return QueueSettings()
    concurrency, jobs, duration_ms = (_number(queue, fields, name) for name in ("concurrency", "max", "duration"))
    paused = _switch(queue, fields, "paused")
    return QueueSettings(concurrency=concurrency, limit=_limit(jobs, duration_ms), paused=paused)


def limits_of(settings: QueueSettings) -> QueueSettings:
    """The settings without the pause."""
    return replace(settings, paused=Unsaid.UNSAID)


def _limit(jobs: int | Unsaid | None, duration_ms: int | Unsaid | None) -> Limit | Unsaid | None:
    if jobs is None:
        return None
    if isinstance(jobs, Unsaid) or isinstance(duration_ms, Unsaid) or duration_ms is None:
        return Unsaid.UNSAID
    return Limit(jobs, duration_ms / 1000)


def _switch(queue: str, fields: dict[str, Any], name: str) -> bool | Unsaid:
    value = fields.get(name, Unsaid.UNSAID)
    if isinstance(value, bool | Unsaid):
        return value
    log.warning("queue %s: %s=%r in its settings is neither true nor false", queue, name, value)
    return Unsaid.UNSAID


def _number(queue: str, fields: dict[str, Any], name: str) -> int | Unsaid | None:
    value = fields.get(name, Unsaid.UNSAID)
    if value is None or isinstance(value, Unsaid):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    log.warning("queue %s: %s=%r in its settings is not a whole number above zero", queue, name, value)
    return Unsaid.UNSAID
