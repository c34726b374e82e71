"""Another payload for one dead delivery: checked against the event class of its handler. The event itself never changes. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from homing.app.handlers import Handler
from homing.errors import PayloadError, Refused
from homing.events.codec import dump_json, encode_payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A payload in the current version of its event class, as it travels."""

    payload: dict[str, Any]
    version: int

    def as_json(self) -> str:
        """What the delivery's row keeps."""
        return dump_json({"payload": self.payload, "version": self.version})


def edit_payload(text: str, consumer: str, handlers: Iterable[Handler]) -> Edit:
    """The edit that `text` (a JSON object) is for a delivery of `consumer`.

    Stricter than reading an event: it must be of the current version, and a field that the class does not have is a mistake. Raises
    `Refused` when no handler of this app is known for the consumer, or when the payload does not fit.
    """
    handler = find_handler(consumer, handlers)
    if handler is None:
        raise Refused(
            f"no handler of this app consumes {consumer!r}: a payload can be checked only by the app that reads it"
        )
    event_class = handler.event
    try:
        event = event_class.model_validate(_object(text))
        payload = encode_payload(event)
    except ValidationError as error:
        raise Refused(f"the payload does not fit {event_class.__name__} of {handler.topic}: {error}") from error
    except PayloadError as error:
        raise Refused(f"the payload cannot travel: {error}") from error
    return Edit(payload=payload, version=event_class.event_type.version)


def find_handler(consumer: str, handlers: Iterable[Handler]) -> Handler | None:
    """The handler whose consumer or former name this is."""
    return next((handler for handler in handlers if consumer in (handler.consumer, *handler.aliases)), None)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the payload is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused(f"the payload is a JSON {type(value).__name__}: it must be an object")
    return value
