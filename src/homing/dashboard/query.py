"""What an address asks for: read strictly, so that a value that makes no sense is told and never reaches a server."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TypeVar
from uuid import UUID

from starlette.exceptions import HTTPException

from homing.clock import SystemClock
from homing.durations import parse_duration

E = TypeVar("E", bound=Enum)

LONGEST = 300
"""Characters of one value."""

FIRST_YEAR, LAST_YEAR = 1970, 9998
"""What a moment may be of: far enough from the ends of the calendar that every zone has it."""

_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")


class Query:
    """The values of an address or a form by name, of which the first one counts. Every reading method raises a 400 that names the value."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        self.pairs = pairs
        for name, value in pairs:
            if value:
                self._values.setdefault(name, value)

    def raw(self, name: str) -> str:
        """The value as it came, such as a payload of many lines; empty where there is none."""
        return self._values.get(name, "")

    def all(self, name: str) -> list[str]:
        """Every value of a name that may be given more than once."""
        return [value for key, value in self.pairs if key == name and value]

    def text(self, name: str, *, most: int = LONGEST) -> str | None:
        """A line of text without control characters; `None` where it is left out or empty."""
        value = self._values.get(name, "").strip()
        if len(value) > most:
            raise bad(name, value, f"it has {len(value):,} characters and may have {most:,}")
        if _NO_TEXT.search(value):
            raise bad(name, value, "it has characters that no name has")
        return value or None

    def number(self, name: str, *, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """A whole number."""
        value = self.text(name, most=20)
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal() and least <= int(value) <= most):
            raise bad(name, value, f"give a whole number from {least:,} to {most:,}")
        return int(value)

    def choice(self, name: str, kind: type[E]) -> E | None:
        """One of the values of an enumeration."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError:
            raise bad(name, value, f"it is none of {', '.join(str(each.value) for each in kind)}") from None

    def uuid(self, name: str) -> UUID | None:
        """An id of an event or a campaign."""
        value = self.text(name, most=36)
        if value is None:
            return None
        try:
            return UUID(value)
        except ValueError:
            raise bad(name, value, "it is no id: those look like 0198f3a2-…") from None

    def moment(self, name: str) -> datetime | None:
        """A moment: `2d` for two days ago, or an ISO time, which is UTC where it names no zone."""
        value = self.text(name, most=40)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = _ago(name, value)
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise bad(name, value, f"give a moment in the years from {FIRST_YEAR} to {LAST_YEAR}")
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def seconds(self, name: str) -> float | None:
        """A duration above zero, as in `500ms` or `1h30m`."""
        value = self.text(name, most=40)
        if value is None:
            return None
        try:
            seconds = parse_duration(value).total_seconds()
        except ValueError as error:
            raise bad(name, value, str(error)) from None
        if seconds <= 0:
            raise bad(name, value, "give a duration above zero")
        return seconds


def bad(name: str, value: str, why: str) -> HTTPException:
    """The answer to a value that cannot be read."""
    shown = value if len(value) <= 80 else f"{value[:80]}…"
    return HTTPException(400, f"{name}={shown!r}: {why}")


def _ago(name: str, value: str) -> datetime:
    try:
        return SystemClock().now() - parse_duration(value)
    except (ValueError, OverflowError):
        raise bad(name, value, "give a duration (2d, 12h) or an ISO time (2026-01-31T12:00)") from None
