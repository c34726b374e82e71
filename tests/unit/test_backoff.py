"""The wait before a retry: shipped numbers, edges and refusals."""

import math
from datetime import timedelta

import pytest

from homing import Retry, backoff
from homing.app.options import DEFAULTS
from homing.backoff import MAX_WAIT_SECONDS, Backoff
from homing.durations import minutes, seconds
from homing.errors import RegistrationError


def test_the_shipped_policy_waits_four_minutes_at_most() -> None:
    """Eight attempts of the default ride out an outage of at most 254 s."""
    policy = DEFAULTS.policy()
    assert policy.backoff == Backoff(kind="exponential", delay_seconds=2, jitter=0.5, cap_seconds=None)
    longest, mean = policy.backoff.horizon_seconds(policy.attempts)
    assert longest == 254
    assert mean == pytest.approx(190.5)


def test_twelve_capped_attempts_wait_47_minutes_at_most() -> None:
    """Twelve attempts from 2 s with a cap of 15 min: 2,822 s at most and 2,116 s on average."""
    longest, mean = backoff.capped(seconds(2), cap=minutes(15)).horizon_seconds(12)
    assert longest == 2822
    assert mean == pytest.approx(2116, rel=0.01)


def test_ceilings_double_from_the_first_retry_on() -> None:
    """The wait before retry n has the ceiling delay × 2^(n-1), until the cap."""
    rule = backoff.capped(seconds(2), cap=seconds(60))
    assert [rule.ceiling_seconds(retry) for retry in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]


def test_an_uncapped_twelfth_wait_exceeds_an_hour() -> None:
    """Why a cap exists: without one the twelfth wait alone may be longer than an hour."""
    assert backoff.exponential(seconds(2)).ceiling_seconds(12) == 4096


def test_fixed_waits_do_not_grow() -> None:
    """A fixed wait is the same before every retry."""
    rule = backoff.fixed(seconds(3))
    assert [rule.wait_seconds(retry, lambda: 0.7) for retry in (1, 2, 50)] == [3, 3, 3]


def test_one_attempt_waits_for_nothing() -> None:
    """A job with one attempt has no retry, so that its horizon is zero."""
    assert backoff.exponential(seconds(2)).horizon_seconds(1) == (0, 0)


def test_doubling_ends_at_a_year() -> None:
    """However often a wait doubles, it stays a finite time that an engine can take."""
    assert backoff.exponential(seconds(2), jitter=0).wait_seconds(5000, lambda: 0.0) == MAX_WAIT_SECONDS


@pytest.mark.parametrize("retry", [0, -1])
def test_retries_are_counted_from_one(retry: int) -> None:
    """There is no wait before the first run."""
    with pytest.raises(ValueError, match=f"counted from 1, not {retry}"):
        backoff.fixed(seconds(1)).ceiling_seconds(retry)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"delay_seconds": -1.0}, "-1.0"),
        ({"delay_seconds": math.nan}, "nan"),
        ({"delay_seconds": math.inf}, "inf"),
        ({"delay_seconds": MAX_WAIT_SECONDS * 2}, "not 63072000.0"),
        ({"jitter": 1.5}, "1.5"),
        ({"jitter": -0.1}, "-0.1"),
        ({"jitter": math.nan}, "nan"),
        ({"cap_seconds": 1.0}, "cap 1 s is below the first delay 2 s"),
        ({"cap_seconds": math.nan}, "cap nan s"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rule_that_cannot_be_waited_for_is_refused(wrong: dict[str, float], named: str) -> None:
    """Delays, jitter and caps outside their range are errors of the declaration that name the value."""
    values: dict[str, float] = {"delay_seconds": 2.0, "jitter": 0.5} | wrong
    with pytest.raises(RegistrationError, match=named):
        Backoff(kind="exponential", **values)


@pytest.mark.parametrize("make", [backoff.fixed, backoff.exponential])
def test_constructors_refuse_a_negative_delay(make: object) -> None:
    """The public constructors refuse what the rule refuses, where it is written."""
    assert callable(make)
    with pytest.raises(RegistrationError, match=r"-1\.0"):
        Retry(backoff=make(timedelta(seconds=-1)))
