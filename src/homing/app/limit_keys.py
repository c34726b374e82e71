"""What a limit by key counts by: a field of the event, or what a function makes of it."""

from collections.abc import Callable
from typing import Any

from homing.errors import RegistrationError
from homing.events.event import Event

LimitKey = str | Callable[[Any], object]
"""The name of a field, such as `"tenant_id"`, or a function of the event. `None` as a value: this event is not limited."""

ReadKey = Callable[[Event], str | None]


def key_reader(limit_key: LimitKey, event: type[Event], where: str) -> ReadKey:
    """A function that reads the key of an event; a `RegistrationError` when the event has no such field."""
    if not isinstance(limit_key, str):
        function = limit_key
        return lambda read: _text(function(read))
    name = limit_key
    if name not in event.model_fields:
        fields = ", ".join(event.model_fields) or "none"
        raise RegistrationError(
            f"{where}: the queue limits by {name!r}, which {event.__name__} does not have (its fields: {fields}): "
            "add the field, or give limit_key a function"
        )
    return lambda read: _text(getattr(read, name))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
