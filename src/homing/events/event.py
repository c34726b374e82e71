"""What happened: immutable facts that know their topic. Declaring one needs no database, no engine and no app object."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from homing.errors import NewerPayloadError, PayloadError, RegistrationError
from homing.events.misfit import describe_misfit
from homing.ids import EventId, new_event_id

Upcast = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """What an event class said about itself."""

    topic: str
    aggregate: str | None = None
    version: int = 1
    unrouted: bool = False
    upcasts: dict[int, Upcast] = field(default_factory=dict)


class _Arriving(threading.local):
    """Whether this thread is building an event that has its id already."""

    now = False


_arriving = _Arriving()
_ID = "_id"


class Event(BaseModel):
    """A fact that an application records: `class OrderPlaced(Event, topic="order.placed", aggregate="order_id")`.

    Fields travel in camelCase. Building an event with an unknown field is an error; reading one is not, so that a newer producer
    may add fields. The id is made with the object, and stays: recording the same object again after a rollback records the same
    event.

    Class arguments: `topic` names the kind of fact; `aggregate` names the field that tells which thing it happened to;
    `version` counts incompatible shapes from 1 (see `upcast`); `unrouted=True` says that no consumer is expected.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        ser_json_inf_nan="constants",  # never a silent null: the codec must see them to refuse them
    )

    event_type: ClassVar[EventType] = EventType(topic="")

    def __init_subclass__(
        cls, *, topic: str = "", aggregate: str | None = None, version: int = 1, unrouted: bool = False, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.event_type = EventType(topic=topic, aggregate=aggregate, version=version, unrouted=unrouted)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if cls.event_type.topic:
            _check_declaration(cls)

    def model_post_init(self, context: Any, /) -> None:
        """Give the event its id; an event class with a `model_post_init` of its own calls this one."""
        del context
        if not _arriving.now:  # else it is set once the event is whole
            _set_id(self, new_event_id())

    @property
    def event_id(self) -> EventId:
        """The identity of this fact, made with the object (UUID version 7)."""
        known: EventId | None = (self.__pydantic_private__ or {}).get(_ID)
        return _set_id(self, new_event_id()) if known is None else known  # none: it arrived inside another event

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the event; with an `update` it is another fact, and gets an id of its own."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            _set_id(copied, new_event_id())
        return copied

    @classmethod
    def upcast(cls, *, from_version: int) -> Callable[[Upcast], Upcast]:
        """Register how a payload of `from_version` becomes one of `from_version + 1`."""
        version = cls.event_type.version
        if not 1 <= from_version < version:
            raise RegistrationError(
                f"{cls.__name__} has version {version}: an upcast starts from 1 to {version - 1}, not {from_version}"
            )

        def register(function: Upcast) -> Upcast:
            cls.event_type.upcasts[from_version] = function
            return function

        return register

    @classmethod
    def decode(cls, payload: dict[str, Any], *, event_id: UUID, version: int = 1) -> Self:
        """Build the event from a recorded payload of any version up to this class's; unknown fields are ignored.

        Raises `NewerPayloadError` when the payload is newer than this code, `PayloadError` when an upcast is missing or it does not fit.
        """
        known = cls.event_type
        if version > known.version:
            raise NewerPayloadError(
                f"{known.topic} arrived in version {version}, this code knows {known.version}: deploy the newer code first"
            )
        for step in range(version, known.version):
            if step not in known.upcasts:
                raise PayloadError(f"{cls.__name__} has no upcast from version {step}: add @{cls.__name__}.upcast")
            payload = known.upcasts[step](payload)
        _arriving.now = True
        try:
            event: Self = cls.__pydantic_validator__.validate_python(payload, extra="ignore")
        except ValidationError as error:
            raise PayloadError(
                f"the payload of {known.topic} {event_id} does not fit {cls.__name__}: {describe_misfit(error)}"
            ) from error
        finally:
            _arriving.now = False
        _set_id(event, EventId(event_id))
        return event


def _set_id(event: Event, event_id: EventId) -> EventId:
    """Keep the id beside the fields, where pydantic keeps private attributes and copies, compares and pickles them. One that is declared
    takes twice as long to make as all the fields together."""  # noqa: D205, D209 - one thought
    private = event.__pydantic_private__
    if private is None:
        object.__setattr__(event, "__pydantic_private__", {_ID: event_id})
    else:
        private[_ID] = event_id
    return event_id


def aggregate_id(event: Event) -> str | None:
    """The id of the thing that `event` happened to, as text; `None` when its class names no aggregate or the field is `None`."""
    name = event.event_type.aggregate
    value = None if name is None else getattr(event, name)
    return None if value is None else str(value)


def known_events() -> list[type[Event]]:
    """Every event class with a topic that this process has imported so far, in the order of their topics."""
    found: list[type[Event]] = []
    left = list(Event.__subclasses__())
    while left:
        cls = left.pop()
        left.extend(cls.__subclasses__())
        if cls.event_type.topic:
            found.append(cls)
    return sorted(found, key=lambda cls: (cls.event_type.topic, cls.__module__, cls.__qualname__))


def _check_declaration(cls: type[Event]) -> None:
    declared = cls.event_type
    if declared.aggregate is not None and declared.aggregate not in cls.model_fields:
        raise RegistrationError(
            f"{cls.__name__} names aggregate={declared.aggregate!r}, which is no field of it: {', '.join(cls.model_fields)}"
        )
    if declared.version < 1:
        raise RegistrationError(f"{cls.__name__} has version={declared.version}: versions are counted from 1")
