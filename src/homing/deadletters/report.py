"""What is kept of an error: its class, its text, its stack, and a fingerprint by which like failures are grouped. Pure."""

import json
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, Self

from homing.config.urls import mask_text
from homing.events.codec import dump_json
from homing.harmless import clean

MAX_TEXT = 4_000
"""Characters of an error's text that are kept."""

MAX_STACK = 16_000
"""Characters of a stack that are kept: its end, where the error was raised."""

MAX_NAME = 200
"""Characters of an error's class and place that are kept."""

MAX_DEPTH = 200
"""Levels of arrays and objects that are kept as they are; PostgreSQL's own limit depends on its stack."""

_NO_JSONB = re.compile(r"[\x00\ud800-\udfff]")
_NUMBERS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+", re.IGNORECASE)


Finality = Literal["permanent", "exhausted"]
"""Why a failure was the last: no retry can help, or none was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """An error as a person will read it: clean text of bounded length, passwords in addresses masked. `frame` is where it was raised, without line number.

    `reason` is `None` where nobody judged: verdicts of the engine, of another worker, of the clock.
    """

    error_class: str
    text: str
    stack: str = ""
    frame: str = ""
    reason: Finality | None = None

    @property
    def summary(self) -> str:
        """`Class: text`, one line for the engine's own list of failed jobs."""
        return f"{self.error_class}: {self.text}" if self.text else self.error_class

    def fingerprint(self, consumer: str) -> str:
        """The same for failures of one consumer, class and place; for errors without a place, of one text without its numbers."""
        place = self.frame or _NUMBERS.sub("#", self.text)
        return sha256(f"{consumer}\n{self.error_class}\n{place}".encode()).hexdigest()[:16]

    def final(self, reason: Finality) -> Self:
        """The same report of a failure that was the last."""
        return replace(self, reason=reason)

    def as_json(self, *, starts: int | None = None) -> str:
        """The JSON text that a dead letter keeps; what is not known is left out."""
        known = {"class": self.error_class, "text": self.text, "stack": self.stack, "frame": self.frame}
        reason = {} if self.reason is None else {"reason": self.reason}
        return dump_json(known | reason | ({} if starts is None else {"starts": starts}))


class Reported:
    """An error that was raised in another process, which sent its `report`."""

    report: ErrorReport


def report_error(error: BaseException) -> ErrorReport:
    """The report of an exception, its causes included in the stack."""
    if isinstance(error, Reported):
        return error.report
    stack = "".join(traceback.format_exception(error))
    frames = traceback.extract_tb(error.__traceback__)
    frame = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].name}" if frames else ""
    return ErrorReport(
        error_class=clean(type(error).__qualname__, MAX_NAME),
        text=mask_text(clean(_text(error), MAX_TEXT)),
        stack=mask_text(_end(clean(stack))),
        frame=clean(frame, MAX_NAME),
    )


def report_text(error_class: str, text: str, stack: str = "") -> ErrorReport:
    """The report of a failure that has no exception here: a verdict of the engine, or of another worker."""
    return ErrorReport(
        error_class=error_class, text=mask_text(clean(text, MAX_TEXT)), stack=mask_text(_end(clean(stack)))
    )


def keepable_json(data: str) -> str:
    """A job's data as jsonb can keep it: the same JSON where possible, otherwise `{"raw": text}` with what it refuses replaced."""
    try:
        value: Any = json.loads(data, parse_constant=_refuse_constant)
        text = dump_json(value)
    except (ValueError, RecursionError):
        return dump_json({"raw": clean(data)})
    return text if fits_jsonb(value) else dump_json({"raw": clean(data)})


def fits_jsonb(value: object) -> bool:
    """Whether jsonb keeps a JSON value as it is: no NUL, no lone surrogate, not nested deeper than `MAX_DEPTH`."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        if any(isinstance(item, str) and _NO_JSONB.search(item) for item in level):
            return False
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return True
    return False


def _inside(value: object) -> Iterable[object]:
    match value:
        case dict():
            return (*value.keys(), *value.values())
        case list() | tuple():
            return value
        case _:
            return ()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - the error's own code; its failure is part of the report
        return f"(its text cannot be read: {type(broken).__name__})"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _end(stack: str) -> str:
    return stack if len(stack) <= MAX_STACK else f"({len(stack) - MAX_STACK:,} characters before)…{stack[-MAX_STACK:]}"
