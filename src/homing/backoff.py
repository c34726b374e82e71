"""How long to wait before the next attempt: pure functions of the attempt number and one random number.

The first run is attempt 1. The wait before retry `n` (n = 1 after the first failure) has a ceiling of
`delay × 2^(n-1)`, capped where a cap is given; jitter moves the wait only into the upper part below that ceiling, so
that jobs which failed together do not return together.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from homing.errors import RegistrationError

MAX_WAIT_SECONDS = 365 * 86400.0
"""No wait is longer, whatever doubles: beyond it a number is no time any more, and engines refuse it."""


Wait = timedelta | float
"""How long to wait; a bare number means seconds. Below zero: do not try again."""

Ask = Callable[[int, BaseException], Wait | Awaitable[Wait]]
"""A rule of your own: the number of the attempt that failed (1 = the first run) and its error in, the wait before the next out.

It is asked on the worker's event loop, so it decides from what it knows or awaits. One that raises, answers with something else or
takes longer than ten seconds is logged, and the shipped backoff decides instead.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A rule for the wait before a retry.

    `delay_seconds`: the first ceiling. `jitter`: the part of the ceiling, from 0 to 1, that is drawn at random (0.5 = the
    wait lies between half of the ceiling and the ceiling). `cap_seconds`: no ceiling is higher; `None` = only `MAX_WAIT_SECONDS`.
    """

    kind: Literal["fixed", "exponential"]
    delay_seconds: float
    jitter: float = 0.0
    cap_seconds: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.delay_seconds <= MAX_WAIT_SECONDS:
            raise RegistrationError(
                f"a backoff delay lies between 0 and {MAX_WAIT_SECONDS:g} s, not {self.delay_seconds!r}"
            )
        if not 0 <= self.jitter <= 1:
            raise RegistrationError(f"jitter is a part of the delay, from 0 to 1, not {self.jitter!r}")
        if self.cap_seconds is not None and not self.cap_seconds >= self.delay_seconds:
            raise RegistrationError(
                f"cap {self.cap_seconds:g} s is below the first delay {self.delay_seconds:g} s: raise it, or use fixed()"
            )

    def ceiling_seconds(self, retry: int) -> float:
        """The longest wait before retry number `retry` (1 = the first retry)."""
        if retry < 1:
            raise ValueError(f"retries are counted from 1, not {retry}")
        if self.kind == "fixed":
            return self.delay_seconds
        cap_seconds = MAX_WAIT_SECONDS if self.cap_seconds is None else min(self.cap_seconds, MAX_WAIT_SECONDS)
        return min(self.delay_seconds * 2.0 ** min(retry - 1, 1000), cap_seconds)

    def wait_seconds(self, retry: int, random: Callable[[], float]) -> float:
        """The wait before retry `retry`; `random` gives a number in [0, 1)."""
        ceiling = self.ceiling_seconds(retry)
        return ceiling * (1 - self.jitter) + random() * ceiling * self.jitter

    def horizon_seconds(self, attempts: int) -> tuple[float, float]:
        """The longest and the mean total wait of `attempts` runs: how long an outage this policy rides out."""
        ceilings = sum(self.ceiling_seconds(retry) for retry in range(1, attempts))
        return ceilings, ceilings * (1 - self.jitter / 2)


def fixed(delay: timedelta, *, jitter: float = 0.0) -> Backoff:
    """The same wait before every retry."""
    return Backoff(kind="fixed", delay_seconds=delay.total_seconds(), jitter=jitter)


def exponential(delay: timedelta, *, jitter: float = 0.5) -> Backoff:
    """A wait that doubles with every retry, up to `MAX_WAIT_SECONDS`."""
    return Backoff(kind="exponential", delay_seconds=delay.total_seconds(), jitter=jitter)


def capped(delay: timedelta, *, cap: timedelta, jitter: float = 0.5) -> Backoff:
    """A wait that doubles with every retry and never exceeds `cap`."""
    return Backoff(
        kind="exponential", delay_seconds=delay.total_seconds(), jitter=jitter, cap_seconds=cap.total_seconds()
    )
