"""Retry-After may hold anything."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from homing.http import MAX_RETRY_AFTER, parse_retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)

words = st.sampled_from(
    [
        "Wed,",
        "1",
        "Jan",
        "2024",
        "99",
        "12:00:00",
        "1.2.3",
        "GMT",
        "+9999",
        "-",
        "9" * 30,
        "1-Jan-20",
        "PM",
        ":",
        ",",
        "٣",
    ]
)
texts = st.text() | st.lists(words, max_size=8).map(" ".join) | st.text("0123456789:.+-, JanGMTe_", max_size=30)


@given(texts)
def test_any_text_is_read_within_bounds(text: str) -> None:
    """No text raises, and a wait that is found lies between nothing and a day."""
    wait = parse_retry_after(text, now=NOW)
    assert wait is None or timedelta(0) <= wait <= MAX_RETRY_AFTER == timedelta(days=1)


@given(st.floats(allow_nan=False))
def test_seconds_are_taken_as_they_are_within_bounds(asked: float) -> None:
    """A number is that many seconds, cut to what is allowed."""
    wait = parse_retry_after(repr(asked), now=NOW)
    assert wait == timedelta(seconds=min(max(asked, 0.0), 86400.0))


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_dates_are_the_time_that_is_left(at: datetime) -> None:
    """A date asks for what is left until it, to the second."""
    wait = parse_retry_after(format_datetime(at, usegmt=True), now=NOW)
    left = at.replace(microsecond=0) - NOW
    assert wait == min(max(left, timedelta(0)), MAX_RETRY_AFTER)
