"""What an application may say about attempts, keeping and limits, and how the levels merge.

Every field that is left out comes from the next level: handler over queue over app over the defaults at the end of this module.
"""

from dataclasses import InitVar, dataclass, fields
from datetime import timedelta
from typing import Any, Literal

from homing.app.limit_keys import ReadKey
from homing.backoff import Ask, Backoff, exponential
from homing.durations import days, describe_seconds, seconds
from homing.errors import RegistrationError
from homing.queue.job import KeepRule
from homing.queue.port import Limit

LONGEST = days(36_500)
"""The longest time-out and deadline: what is longer cannot be added to a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how fast a job is tried again.

    `attempts`: runs in all, the first included. `backoff`: the wait between them, as a rule or as a function of your own
    (`homing.backoff.Ask`). `max_starts`: how often a job may be started
    before it is dead, `RetryLater` included, for whose endless repetition it is the net; never less than the attempts. What was
    throttled, parked, interrupted or given back has not started.
    `merged` is Homing's own: the two numbers come from two levels, and the attempts that somebody asked for count.
    """

    attempts: int | None = None
    backoff: Backoff | Ask | None = None
    max_starts: int | None = None
    merged: InitVar[bool] = False

    def __post_init__(self, merged: bool) -> None:
        for name, value in (("attempts", self.attempts), ("max_starts", self.max_starts)):
            if value is not None and value < 1:
                raise RegistrationError(f"Retry({name}={value}): at least 1, which is the first run")
        if not (self.backoff is None or isinstance(self.backoff, Backoff) or callable(self.backoff)):
            raise RegistrationError(f"Retry(backoff={self.backoff!r}): neither a rule of homing.backoff nor a function")
        if merged or self.attempts is None or self.max_starts is None:
            return
        if self.attempts > self.max_starts:
            raise RegistrationError(
                f"Retry(attempts={self.attempts}, max_starts={self.max_starts}): no attempt happens without a start"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long finished jobs stay in the engine for people to look at: by age, by count, or both. `FOREVER` keeps all."""

    age: timedelta | None = None
    count: int | None = None

    def rule(self) -> KeepRule:
        """The same for the engine; a `RegistrationError` names a negative value."""
        try:
            return KeepRule(age_seconds=None if self.age is None else self.age.total_seconds(), count=self.count)
        except ValueError as error:
            raise RegistrationError(f"{self}: {error}") from error


FOREVER = Keep()
"""Keep every finished job. The queue then only grows."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `jobs` starts `per` duration, over all workers of the queue. It counts jobs, not requests."""

    jobs: int
    per: timedelta

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.per <= timedelta(0):
            raise RegistrationError(f"RateLimit({self.jobs}, per={self.per}): both must be greater than zero")

    def limit(self) -> Limit:
        """The same for the engine."""
        return Limit(self.jobs, self.per.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One level of options; `None` = ask the next level."""

    retry: Retry | None = None
    keep_completed: Keep | None = None
    keep_failed: Keep | None = None
    timeout: timedelta | None = None
    deadline: timedelta | None = None

    def over(self, lower: "Options") -> "Options":
        """This level's fields where they are set, the lower level's elsewhere; `retry` merges field by field too."""
        merged = {field.name: _first(getattr(self, field.name), getattr(lower, field.name)) for field in fields(self)}
        if self.retry is not None and lower.retry is not None:
            merged["retry"] = Retry(
                **{f.name: _first(getattr(self.retry, f.name), getattr(lower.retry, f.name)) for f in fields(Retry)},
                merged=True,
            )
        return Options(**merged)

    def policy(self) -> "Policy":
        """The values in force, with the defaults below everything."""
        all_set = self.over(DEFAULTS)
        retry, timeout, deadline = all_set.retry, all_set.timeout, all_set.deadline
        keep_completed, keep_failed = all_set.keep_completed, all_set.keep_failed
        if retry is None or deadline is None or keep_completed is None or keep_failed is None:
            raise AssertionError("DEFAULTS leaves a field open")
        if retry.attempts is None or retry.backoff is None or retry.max_starts is None:
            raise AssertionError("DEFAULTS leaves a field of retry open")
        rule, ask = (retry.backoff, None) if isinstance(retry.backoff, Backoff) else (SHIPPED_BACKOFF, retry.backoff)
        return Policy(
            attempts=retry.attempts,
            backoff=rule,
            ask=ask,
            max_starts=max(retry.max_starts, retry.attempts),
            timeout_seconds=None if timeout is None else _positive("timeout", timeout),
            deadline_seconds=_positive("deadline", deadline),
            keep_completed=keep_completed.rule(),
            keep_failed=keep_failed.rule(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The options in force for one handler.

    `timeout_seconds`: the longest one run may take; `None` = `HOMING_ATTEMPT_TIMEOUT`, which every handler has that says nothing.
    `ask` decides the wait where the application has a rule of its own, and then `backoff` is what holds when it fails.
    `deadline_seconds` counts from the opening of the delivery. `limit`, `read_key`, `key_limit` and `throttle` are its queue's: how many
    jobs may start, by what else they are counted and how many of each, and what waits after a `Throttled` that does not say.
    """

    attempts: int
    backoff: Backoff
    max_starts: int
    timeout_seconds: float | None
    deadline_seconds: float
    keep_completed: KeepRule
    keep_failed: KeepRule
    limit: Limit | None = None
    read_key: ReadKey | None = None
    key_limit: Limit | None = None
    throttle: Literal["queue", "job", "key"] = "job"
    ask: Ask | None = None

    def describe_horizon(self) -> str:
        """The longest that all waits together may take: how long an outage this policy rides out. An own rule is not asked."""
        return "its own rule" if self.ask else describe_seconds(self.backoff.horizon_seconds(self.attempts)[0])

    def job_options(self) -> dict[str, Any]:
        """What the relay must know to hand a job over, as it is stored with the subscription."""
        return {
            "attempts": self.attempts,
            "backoff": {
                "kind": self.backoff.kind,
                "delaySeconds": self.backoff.delay_seconds,
                "jitter": self.backoff.jitter,
                "capSeconds": self.backoff.cap_seconds,
            },
            "keepCompleted": {"ageSeconds": self.keep_completed.age_seconds, "count": self.keep_completed.count},
            "keepFailed": {"ageSeconds": self.keep_failed.age_seconds, "count": self.keep_failed.count},
            "deadlineSeconds": self.deadline_seconds,
        }


SHIPPED_BACKOFF = exponential(seconds(2), jitter=0.5)
"""The wait of everybody who says nothing."""

DEFAULTS = Options(
    retry=Retry(attempts=8, backoff=SHIPPED_BACKOFF, max_starts=50),
    keep_completed=Keep(age=days(1), count=10_000),
    keep_failed=Keep(age=days(14)),
    deadline=days(14),
)
"""What holds where nobody says anything else."""


def _first(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _positive(name: str, value: timedelta) -> float:
    if not isinstance(value, timedelta):
        raise RegistrationError(f"{name}={value!r}: give a duration, such as seconds(30) or timedelta(days=1)")
    if not timedelta(0) < value <= LONGEST:
        raise RegistrationError(f"{name}={value}: must be greater than zero and at most {LONGEST.days:,} days")
    return value.total_seconds()
