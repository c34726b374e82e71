"""What a provider should do wrong, and the pure decision whether the next call is the one to suffer."""

import difflib
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt
from pydantic import ValidationError as PydanticValidationError

MAX_LATENCY_MS = 600_000

Trouble = Literal["refuse", "hang", "hang_after_effect", "fail_after_effect"]
TROUBLES: tuple[Trouble, ...] = ("refuse", "hang", "hang_after_effect", "fail_after_effect")


class KnobError(ValueError):
    """A knob that does not exist, or a value it cannot take; the text names the knob."""


def _checked_when(when: bool | float) -> bool | float:  # noqa: FBT001 - the value of a knob, not a switch of this function
    if isinstance(when, bool):
        return when
    if isinstance(when, int):
        if when < 0:
            raise ValueError("a number of calls cannot be negative")
        return when
    if when == 0.0:
        return 0
    if not 0.0 < when < 1.0:
        raise ValueError(
            "a probability lies between 0 and 1; write true for every call, or a whole number for the next N"
        )
    return when


def _split_names(names: object) -> object:
    return [name for name in names.split(",") if name] if isinstance(names, str) else names


When = Annotated[StrictBool | StrictInt | StrictFloat, AfterValidator(_checked_when)]


class Knobs(BaseModel):
    """Everything that can go wrong with a provider; the defaults are a provider in good health.

    The four troubles `refuse`, `hang`, `hang_after_effect` and `fail_after_effect` take a whole number (the next N calls),
    a fraction between 0 and 1 (the probability of each call), `true` (every call) or `false` (none).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    latency_ms: Annotated[StrictInt, Field(ge=0, le=MAX_LATENCY_MS)] = 0
    """Milliseconds a call takes before it has its effect; a look-up is just as slow."""

    refuse: When = 0
    """Turn the call away before anything happened."""

    refuse_status: Annotated[StrictInt, Field(ge=400, le=599)] | None = None
    """The status of a refusal; none: 503 over HTTP, 451 over SMTP."""

    retry_after_seconds: Annotated[StrictInt, Field(ge=1)] | None = None
    """Whole seconds to send as Retry-After with a refusal; none: no such header."""

    hang: When = 0
    """Accept the call and never answer it, before anything happened, until released or until the caller leaves."""

    hang_after_effect: When = 0
    """Do what was asked and then never answer, until released or until the caller leaves."""

    fail_after_effect: When = 0
    """Do what was asked and then answer as if it had failed."""

    fail_with: Literal["error", "cut"] = "error"
    """How `fail_after_effect` looks: a 500 (451 over SMTP), or a connection cut without an answer."""

    throttle: Annotated[StrictInt, Field(ge=1)] | None = None
    """The most calls in any one second, per API key where there is one; none: no limit."""

    only: Annotated[tuple[str, ...], BeforeValidator(_split_names)] = ()
    """The operations that latency and troubles apply to; empty: all of them."""

    seed: StrictInt = 1
    """Where the dice start: same seed and same order of calls, same troubles."""

    def turned(self, changes: Mapping[str, Any], operations: Collection[str]) -> Self:
        """Return these knobs with `changes`; `KnobError` names an unknown knob, operation or value."""
        for name in changes:
            if name not in type(self).model_fields:
                raise KnobError(f"unknown knob {name!r}{_suggestion(name, type(self).model_fields)}")
        try:
            turned = type(self).model_validate({**self.model_dump(), **changes})
        except PydanticValidationError as error:
            raise KnobError(_explanation(error)) from error
        for operation in turned.only:
            if operation not in operations:
                raise KnobError(f"knob 'only': unknown operation {operation!r}; choose from {', '.join(operations)}")
        return turned

    def concerns(self, operation: str) -> bool:
        return not self.only or operation in self.only


@dataclass(frozen=True, slots=True)
class Arrival:
    """What meets a call at the door."""

    hang: bool = False
    refuse: bool = False


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What becomes of the answer to a call that had its effect."""

    hang: bool = False
    fail: Literal["error", "cut"] | None = None


def spend(when: bool | float, roll: float) -> tuple[bool, bool | float]:  # noqa: FBT001 - the value of a knob
    """Say whether a trouble hits one call, and what is left of its knob; `roll` is uniform in [0, 1)."""
    if isinstance(when, bool):
        return when, when
    if isinstance(when, int):
        return (True, when - 1) if when > 0 else (False, 0)
    return roll < when, when


class Dice:
    """Seeded decisions, call by call; each trouble has a stream of its own, so that one does not disturb another."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self._streams = {
            trouble: random.Random(f"{knobs.seed}/{trouble}")  # noqa: S311 - a simulation's dice, not a secret
            for trouble in TROUBLES
        }

    def arrival(self, operation: str) -> Arrival:
        if not self.knobs.concerns(operation):
            return Arrival()
        return Arrival(hang=self._hits("hang"), refuse=self._hits("refuse"))

    def aftermath(self, operation: str) -> Aftermath:
        """Decide for a call that had its effect just now; a call without effect must not ask."""
        if not self.knobs.concerns(operation):
            return Aftermath()
        hang = self._hits("hang_after_effect")
        return Aftermath(hang=hang, fail=self.knobs.fail_with if self._hits("fail_after_effect") else None)

    def _hits(self, trouble: Trouble) -> bool:
        before = getattr(self.knobs, trouble)
        hit, left = spend(before, self._streams[trouble].random())
        if left != before:
            self.knobs = self.knobs.model_copy(update={trouble: left})
        return hit


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; the knobs are {', '.join(known)}"


def _explanation(error: PydanticValidationError) -> str:
    by_knob: dict[str, tuple[object, list[str]]] = {}
    for detail in error.errors(include_url=False):
        by_knob.setdefault(str(detail["loc"][0]), (detail["input"], []))[1].append(detail["msg"])
    return "; ".join(
        f"knob {name!r} cannot be {value!r}: {', or '.join(why)}" for name, (value, why) in by_knob.items()
    )
