"""What an error means for its job."""

import asyncio

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from homing import PermanentError, Retry, RetryLater, Throttled, Unauthorized, backoff
from homing.app.options import Options, Policy
from homing.backoff import MAX_WAIT_SECONDS
from homing.durations import seconds
from homing.errors import AttemptTimeout, HandlerEndedTransaction
from homing.queue.outcome import Postponed
from homing.queue.outcome import Retry as RetryOutcome
from homing.worker.classify import CONFLICT_SECONDS, LASTING_CONFLICT_SECONDS, Attempt, Fatal, classify, is_conflict

POLICY = Options(retry=Retry(attempts=3, max_starts=10, backoff=backoff.exponential(seconds(2), jitter=0.5))).policy()
FIRST = Attempt(number=1, starts=1)
LAST = Attempt(number=3, starts=3)


def half() -> float:
    """The middle of every draw."""
    return 0.5


def judged(error: BaseException, attempt: Attempt = FIRST, policy: Policy = POLICY) -> object:
    """The verdict, without chance."""
    return classify(error, attempt, policy, half)


class Refused(Exception):  # noqa: N818 - an error of a driver
    """An error with a code, as drivers raise them."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@pytest.mark.parametrize("error", [PermanentError("no"), Unauthorized("401"), HandlerEndedTransaction("committed")])
def test_permanent_errors_are_fatal_at_once(error: Exception) -> None:
    """What gives the same result again is not tried again."""
    verdict = judged(error)
    assert isinstance(verdict, Fatal)
    assert verdict.report.error_class == type(error).__qualname__
    assert verdict.report.reason == "permanent"


@pytest.mark.parametrize("attempt", [FIRST, LAST])
@pytest.mark.parametrize(("error", "how"), [(RetryLater(7, "x"), "snoozed"), (Throttled(7, "x"), "throttled")])
def test_postponing_spends_nothing(error: Exception, how: str, attempt: Attempt) -> None:
    """The wait is the one that was asked for, on the last attempt too."""
    verdict = judged(error, attempt)
    assert isinstance(verdict, Postponed)
    assert (verdict.delay_seconds, verdict.how) == (7, how)
    assert "x (again in 7 s)" in verdict.reason


@pytest.mark.parametrize("error", [RetryLater(1e300), Throttled(1e300)])
def test_postponing_is_bounded(error: Exception) -> None:
    """A wait beyond a year is a year: the engine takes no other."""
    verdict = judged(error)
    assert isinstance(verdict, Postponed)
    assert verdict.delay_seconds == MAX_WAIT_SECONDS


@pytest.mark.parametrize(
    "error",
    [
        OSError("net"),
        ValueError("x"),
        AttemptTimeout("slow"),
        TimeoutError(),
        asyncio.CancelledError(),
        SystemExit(3),
        BaseExceptionGroup("g", [PermanentError("inside")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_unknown_errors_are_tried_again_with_backoff(error: BaseException) -> None:
    """What is not known to be permanent may pass; the last attempt is the last."""
    verdict = judged(error)
    assert isinstance(verdict, RetryOutcome)
    assert verdict.delay_seconds == 1.5
    assert type(error).__name__ in verdict.reason
    second = judged(error, Attempt(number=2, starts=2))
    assert isinstance(second, RetryOutcome)
    assert second.delay_seconds == 3
    last = judged(error, LAST)
    assert isinstance(last, Fatal)
    assert last.report.error_class == type(error).__name__
    assert last.report.reason == "exhausted"


@pytest.mark.parametrize("error", [RetryLater(1), Throttled(1), OSError("net")])
def test_too_many_starts_are_fatal(error: Exception) -> None:
    """The net under endless postponing: the letter says how often, and what was last."""
    verdict = judged(error, Attempt(number=1, starts=10))
    assert isinstance(verdict, Fatal)
    assert (verdict.report.error_class, verdict.report.reason) == ("StartedTooOften", "exhausted")
    assert "started 10 times without an end (max_starts=10)" in verdict.report.text
    assert type(error).__name__ in verdict.report.text
    assert not isinstance(judged(error, Attempt(number=1, starts=9)), Fatal)


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
@pytest.mark.parametrize("attempt", [FIRST, LAST])
def test_conflicts_wait_a_moment_and_spend_nothing(state: str, attempt: Attempt) -> None:
    """Meeting another transaction is nobody's fault, even at the last attempt."""
    verdict = judged(Refused(state), attempt)
    assert isinstance(verdict, Postponed)
    assert verdict.delay_seconds == pytest.approx(CONFLICT_SECONDS)
    assert verdict.how == "snoozed"


def test_conflicts_are_never_dead() -> None:
    """A job that was started as often as it may be waits longer; but what its error says of later counts, not its cause."""
    many = Attempt(number=3, starts=10)
    verdict = judged(chained(RuntimeError("service"), Refused("40001")), many)
    assert isinstance(verdict, Postponed)
    assert verdict.delay_seconds == pytest.approx(LASTING_CONFLICT_SECONDS)
    later = judged(chained(RetryLater(7), Refused("40001")))
    assert isinstance(later, Postponed)
    assert later.delay_seconds == 7
    assert isinstance(judged(chained(RetryLater(7), Refused("40001")), many), Fatal)


def test_conflicts_are_spread() -> None:
    """Those that collided do not collide again together."""
    low = classify(Refused("40001"), FIRST, POLICY, lambda: 0.0)
    high = classify(Refused("40001"), FIRST, POLICY, lambda: 0.999)
    assert isinstance(low, Postponed)
    assert isinstance(high, Postponed)
    assert low.delay_seconds == pytest.approx(CONFLICT_SECONDS / 2)
    assert low.delay_seconds < high.delay_seconds < CONFLICT_SECONDS * 1.5


def chained(error: Exception, cause: BaseException) -> Exception:
    """`error` raised from `cause`."""
    error.__cause__ = cause
    return error


def circle() -> Exception:
    """Two errors that are each other's cause."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


CONFLICT = asyncpg.DeadlockDetectedError("deadlock detected")


@pytest.mark.parametrize(
    ("error", "conflict"),
    [
        (CONFLICT, True),
        (asyncpg.SerializationError("x"), True),
        (asyncpg.LockNotAvailableError("x"), True),
        (DBAPIError("UPDATE", {}, CONFLICT), True),
        (OperationalError("UPDATE", {}, chained(Exception("adapter"), CONFLICT)), True),
        (chained(RuntimeError("service"), DBAPIError("UPDATE", {}, CONFLICT)), True),
        (chained(RuntimeError("a"), chained(RuntimeError("b"), Refused("40P01"))), True),
        (asyncpg.UniqueViolationError("x"), False),
        (DBAPIError("UPDATE", {}, Refused("23505")), False),
        (RuntimeError("40001"), False),
        (circle(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_conflict_is_found_under_what_was_raised_from_it(error: Exception, *, conflict: bool) -> None:
    """Drivers and services wrap: the code counts wherever it is in the chain of causes and originals."""
    assert is_conflict(error) is conflict


def test_a_permanent_error_caused_by_a_conflict_is_permanent() -> None:
    """Whoever says permanent has decided."""
    assert isinstance(judged(chained(PermanentError("given up"), CONFLICT)), Fatal)
