"""The wait before a retry, for any rule."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from homing.backoff import MAX_WAIT_SECONDS, Backoff


@st.composite
def rules(draw: st.DrawFn) -> Backoff:
    """Any rule that may be declared."""
    delay = draw(st.floats(0, 1e6))
    cap = draw(st.none() | st.floats(delay, 1e9))
    kind: Literal["fixed", "exponential"] = draw(st.sampled_from(("fixed", "exponential")))
    return Backoff(kind=kind, delay_seconds=delay, jitter=draw(st.floats(0, 1)), cap_seconds=cap)


numbers = st.floats(0, 1, exclude_max=True)
retries = st.integers(1, 5000)


@given(rules(), retries, numbers)
def test_a_wait_lies_in_the_upper_part_below_its_ceiling(rule: Backoff, retry: int, number: float) -> None:
    """Jitter takes away at most its share of the ceiling and never adds."""
    ceiling = rule.ceiling_seconds(retry)
    wait = rule.wait_seconds(retry, lambda: number)
    slack = ceiling * 1e-12
    assert ceiling * (1 - rule.jitter) - slack <= wait <= ceiling + slack


@given(rules(), retries)
def test_ceilings_never_fall_and_never_pass_the_cap(rule: Backoff, retry: int) -> None:
    """A later retry never waits for a lower ceiling, and no ceiling is above the cap or a year."""
    ceiling = rule.ceiling_seconds(retry)
    assert rule.delay_seconds <= ceiling <= rule.ceiling_seconds(retry + 1) <= MAX_WAIT_SECONDS
    if rule.cap_seconds is not None and rule.kind == "exponential":
        assert ceiling <= rule.cap_seconds


@given(rules(), retries)
def test_without_jitter_the_wait_is_the_ceiling(rule: Backoff, retry: int) -> None:
    """Jitter 0 draws nothing: the wait is known beforehand."""
    still = Backoff(kind=rule.kind, delay_seconds=rule.delay_seconds, jitter=0, cap_seconds=rule.cap_seconds)
    assert still.wait_seconds(retry, lambda: 0.999) == still.ceiling_seconds(retry)


@given(rules(), st.integers(1, 60), numbers)
def test_the_horizon_bounds_every_sum_of_waits(rule: Backoff, attempts: int, number: float) -> None:
    """The total of the waits is never more than the horizon, and its mean lies below it."""
    longest, mean = rule.horizon_seconds(attempts)
    total = sum(rule.wait_seconds(retry, lambda: number) for retry in range(1, attempts))
    assert total <= longest * (1 + 1e-9)
    assert longest / 2 <= mean <= longest
