"""Which dead letters are meant: every condition that is given must hold. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Self

from homing.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A choice of letters. `error_text` is a part of the text, in any case; `since` is included, `until` is not.

    A filter without any condition is refused where letters are changed, unless `everything` says that all of them are meant.
    """

    consumer: str | None = None
    queue: str | None = None
    kind: str | None = None
    fingerprint: str | None = None
    error_class: str | None = None
    error_text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[int, ...] | None = None
    everything: bool = False

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{name}={moment} has no time zone: nobody could tell which letters are meant")

    @property
    def empty(self) -> bool:
        """Whether no condition is given."""
        return all(value is None for value in self.parameters().values())

    def require_choice(self) -> None:
        """Raise `Refused` for a filter that nobody may have meant."""
        if self.empty and not self.everything:
            raise Refused("an empty filter would take every dead letter: name a condition, or say --everything")
        if self.everything and not self.empty:
            raise Refused("everything and a condition contradict each other: give one of them")

    def parameters(self) -> dict[str, object]:
        """The values of the parameters that `list`, `groups` and `page` share."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "everything"}
        return values | {"ids": None if self.ids is None else list(self.ids)}

    def as_json(self) -> dict[str, object]:
        """What was asked for, without what was left open."""
        given = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The filter that `as_json` made this of."""
        values = dict(stored)
        for name in ("since", "until"):
            if name in values:
                values[name] = datetime.fromisoformat(values[name])
        if "ids" in values:
            values["ids"] = tuple(values["ids"])
        return cls(**values)
