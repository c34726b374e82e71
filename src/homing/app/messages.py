"""By what name a job of another producer is known, where its handler says so: a copy of the same message is then the same job."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from homing.errors import PayloadError, RegistrationError
from homing.events.event import Event
from homing.ids import inbox_id

MessageId = str | Callable[[Mapping[str, Any]], str | UUID]
"""The field of the event that names the message, or a function of the job's data (`eventId`, `traceId`, `payload`) that does."""


def check_message_id(message_id: MessageId | None, event: type[Event], where: str) -> MessageId | None:
    """`message_id`, with a field's name as it travels; a `RegistrationError` for a field that the event does not have."""
    if message_id is None or callable(message_id):
        return message_id
    field = event.model_fields.get(message_id)
    if field is None:
        raise RegistrationError(
            f"{where} says message_id={message_id!r}, and {event.__name__} has no such field, only "
            f"{', '.join(event.model_fields) or 'none at all'}"
        )
    return field.alias or message_id


def message_in(data: str, message_id: MessageId) -> UUID:
    """The inbox id of the message that a job's data holds; a `PayloadError` when nothing there names it."""
    found = _find(json.loads(data), message_id)
    try:
        return inbox_id(str(found) if isinstance(found, int) and not isinstance(found, bool) else found)
    except ValueError as error:
        raise PayloadError(f"the job's data does not name its message: {error}") from error


def _find(data: Mapping[str, Any], message_id: MessageId) -> Any:
    return message_id(data) if callable(message_id) else data["payload"].get(message_id)
