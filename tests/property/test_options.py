"""Merging options, for any levels."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from homing import Keep, Retry, backoff
from homing.app.options import DEFAULTS, Options

times = st.integers(1, 10**6).map(lambda number: timedelta(seconds=number))
keeps = st.builds(Keep, age=st.none() | times, count=st.none() | st.integers(0, 99))
retries = st.builds(
    Retry,
    attempts=st.none() | st.integers(1, 9),
    max_starts=st.none() | st.integers(9, 99),
    backoff=st.none() | st.builds(backoff.fixed, times),
)
levels = st.builds(
    Options,
    retry=st.none() | retries,
    keep_completed=st.none() | keeps,
    keep_failed=st.none() | keeps,
    timeout=st.none() | times,
    deadline=st.none() | times,
)


def first(*values: Any) -> Any:
    """The first value that was given."""
    return next((value for value in values if value is not None), None)


@given(levels, levels, levels)
def test_each_field_comes_from_the_nearest_level_that_has_it(one: Options, two: Options, three: Options) -> None:
    """Merging is field by field, on both floors."""
    merged = one.over(two).over(three)
    for field in fields(Options):
        if field.name != "retry":
            assert getattr(merged, field.name) == first(*(getattr(x, field.name) for x in (one, two, three)))
    given_retries = [x.retry for x in (one, two, three) if x.retry is not None]
    for field in fields(Retry):
        expected = first(*(getattr(retry, field.name) for retry in given_retries))
        assert getattr(merged.retry or Retry(), field.name) == expected


@given(levels, levels, levels)
def test_the_order_of_merging_does_not_matter(one: Options, two: Options, three: Options) -> None:
    """Handler over (queue over app) is (handler over queue) over app."""
    assert one.over(two.over(three)) == one.over(two).over(three)


@given(levels)
def test_every_level_has_a_policy(level: Options) -> None:
    """With the defaults below, nothing is left open, and starts never run out before attempts."""
    policy = level.policy()
    assert 1 <= policy.attempts <= policy.max_starts
    assert policy.timeout_seconds is None or policy.timeout_seconds > 0
    assert level.over(DEFAULTS).policy() == policy
