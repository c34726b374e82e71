"""How text becomes a value: durations as people write them, checked for their sign."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError

from homing.durations import parse_duration

_CENTURY = timedelta(days=36_500)
_ISO_8601: TypeAdapter[timedelta] = TypeAdapter(timedelta)


def read_duration(value: object) -> timedelta:
    """Read `500ms`, `30s`, `14d`, ISO 8601 such as `PT30S`, or take a `timedelta`; a `ValueError` otherwise."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit: write it as text, such as 500ms, 30s, 15m, 2h or 14d")  # noqa: TRY004 - pydantic collects ValueErrors
    text = value.strip()
    if text.lstrip("+-").upper().startswith("P"):
        try:
            return _ISO_8601.validate_python(text.upper())
        except ValidationError:
            raise ValueError(f"{value!r} is not an ISO 8601 duration: write it as PT30S or P14D") from None
    if text.startswith("-"):
        return -parse_duration(text.removeprefix("-"))
    return parse_duration(text)


def not_negative(value: timedelta) -> timedelta:
    """Refuse a duration below zero."""
    if value < timedelta(0):
        raise ValueError("a duration cannot be negative: give 0s or more")
    return value


def longer_than_zero(value: timedelta) -> timedelta:
    """Refuse zero too."""
    if value <= timedelta(0):
        raise ValueError("it must be longer than 0s")
    return value


def within_a_century(value: timedelta) -> timedelta:
    """Refuse what cannot be taken from a date."""
    if value > _CENTURY:
        raise ValueError(f"it must be at most {_CENTURY.days:,} days")
    return value


def read_words(value: object) -> object:
    """Read `a, b` as two words; what is a list already is left alone."""
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


Delay = Annotated[timedelta, BeforeValidator(read_duration), AfterValidator(not_negative)]
"""A duration that may be zero."""

Period = Annotated[timedelta, BeforeValidator(read_duration), AfterValidator(longer_than_zero)]
"""A duration that may not."""

Window = Annotated[Period, AfterValidator(within_a_century)]
"""How long something is kept."""
