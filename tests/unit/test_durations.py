"""Durations by name and as text."""

from datetime import timedelta

import pytest

from homing.durations import days, describe_seconds, hours, milliseconds, minutes, parse_duration, seconds


def test_names_are_the_units_they_say() -> None:
    """Each constructor is its unit."""
    assert milliseconds(1500) == seconds(1.5) == timedelta(seconds=1.5)
    assert minutes(60) == hours(1) == timedelta(hours=1)
    assert days(2) == hours(48)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("1.5s", 1.5),
        ("15m", 900),
        ("2h", 7200),
        ("14d", 14 * 86400),
        ("1h30m", 5400),
        (" 1h 30m ", 5400),
        ("0s", 0),
    ],
)
def test_text_becomes_a_duration(text: str, expected: float) -> None:
    """A number with its unit, or a sum of them, is read."""
    assert parse_duration(text).total_seconds() == expected


@pytest.mark.parametrize(
    "text", ["", "30", "s", "30 seconds", "-5s", "1e3s", "5s5", "s5", "1..5s", "30S", "9" * 20 + "d"]
)
def test_other_text_is_refused_by_name(text: str) -> None:
    """Whatever is no duration, or longer than any, is a ValueError that quotes it."""
    with pytest.raises(ValueError, match="duration") as refusal:
        parse_duration(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    ("total", "words"),
    [
        (0, "0ms"),
        (0.25, "250ms"),
        (0.9996, "1s"),
        (1, "1s"),
        (59.7, "1m"),
        (254, "4m 14s"),
        (2822, "47m 2s"),
        (86400, "1d"),
        (90061, "1d 1h 1m 1s"),
    ],
)
def test_durations_are_told_to_people(total: float, words: str) -> None:
    """Seconds read as days, hours, minutes and seconds, without empty parts."""
    assert describe_seconds(total) == words
