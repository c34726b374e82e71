"""The one rule of cron patterns, at every change of every zone's clocks in some years, against a plain reading of the rule."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homing.cron import NEARBY, parse_cron

YEARS = (2011, 2016, 2024, 2025, 2026, 2027)  # Samoa skipped a day in 2011; Asia moved a lot in 2016
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Change(NamedTuple):
    """A change of a zone's clocks: the first instant of the new offset."""

    zone: str
    at: datetime
    before: timedelta
    after: timedelta


PATTERNS = {
    "30 2 * * *": ({30}, {2}),
    "0 0 * * *": ({0}, {0}),
    "0 3 * * *": ({0}, {3}),
    "*/15 * * * *": ({0, 15, 30, 45}, set(range(24))),
    "45 * * * *": ({45}, set(range(24))),
    "*/15 0-2 * * *": ({0, 15, 30, 45}, {0, 1, 2}),
    "20 */3 * * *": ({20}, set(range(0, 24, 3))),
}


@cache
def changes() -> list[Change]:
    """Every change of every zone in these years."""
    return [change for zone in sorted(available_timezones()) for year in YEARS for change in _changes(zone, year)]


def distinct_changes() -> list[Change]:
    """One change of each kind: what a pattern does there depends on the time of day, the weekday aside, and the size of the jump."""
    return list(
        {((change.at + change.before).time(), change.after - change.before): change for change in changes()}.values()
    )


def test_the_changes_of_these_years_are_as_the_rule_assumes() -> None:
    """There are hundreds, of many kinds, none longer than a day, and no two of one zone closer to each other than is looked."""
    assert len(changes()) > 1000
    assert len(distinct_changes()) > 15
    assert max(abs(change.after - change.before) for change in changes()) <= DAY
    for one, next_one in pairwise(changes()):
        assert one.zone != next_one.zone or next_one.at - one.at > NEARBY


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_fires_as_the_rule_reads_around_every_kind_of_change(pattern: str) -> None:
    """Skipped times once, shifted by the jump; repeated ones the first time, in every hour both times: minute by minute."""
    for change in distinct_changes():
        start, end = change.at - 26 * HOUR, change.at + 27 * HOUR
        assert list(_fired(pattern, change.zone, start, end)) == _as_the_rule_reads(pattern, change, start, end), change


def test_no_day_is_skipped_and_quarters_never_fall_silent_in_any_zone() -> None:
    """At every change of every zone: midnight comes once for each local day there is, and quarters are never more than a quarter apart."""
    for change in {(change.at, change.before, change.after): change for change in changes()}.values():
        start = change.at - 2 * DAY
        days = [
            _fired_day(change.zone, fired) for fired in _fired("0 0 * * *", change.zone, start, change.at + 2 * DAY)
        ]
        assert days == sorted(set(days)), change
        assert set(_local_days(change, start + DAY, change.at + DAY)) <= set(days), change
        quarters = list(_fired("*/15 * * * *", change.zone, change.at - 2 * HOUR, change.at + 2 * HOUR))
        assert max(later - earlier for earlier, later in pairwise(quarters)) <= 15 * MINUTE, change


@settings(max_examples=150)
@given(
    st.sampled_from(["UTC", "Asia/Kolkata", "Europe/Paris", "Australia/Lord_Howe", "America/Santiago", "Pacific/Apia"]),
    st.sampled_from([*PATTERNS, "*/7 13 * * 1-5", "0 12 L * *", "0 0 1 1 *", "15 10 */2 * 1"]),
    st.datetimes(datetime(1990, 1, 1), datetime(2036, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - given its zone by `timezones`
)
def test_the_next_is_later_and_nothing_lies_between(zone: str, pattern: str, after: datetime) -> None:
    """Asked from anywhere before it, the next instant stays the same: nothing is jumped over, and nothing fires twice."""
    cron = parse_cron(pattern, zone)
    fired = cron.next(after)
    assert fired is not None
    assert fired > after
    assert cron.next(after + (fired - after) / 2) == fired
    assert cron.next(fired - timedelta(microseconds=1)) == fired


def _changes(zone: str, year: int) -> Iterator[Change]:
    """Looked for day by day, then closed in on."""
    where = ZoneInfo(zone)
    at = datetime(year, 1, 1, tzinfo=UTC)
    before = _offset(where, at)
    while at.year == year:
        later = at + DAY
        after = _offset(where, later)
        if after != before:
            low, high = at, later
            while high - low > MINUTE:
                middle = low + (high - low) // 2
                low, high = (low, middle) if _offset(where, middle) != before else (middle, high)
            yield Change(zone, high.replace(second=0, microsecond=0), before, after)
        at, before = later, after


def _as_the_rule_reads(pattern: str, change: Change, start: datetime, end: datetime) -> list[datetime]:
    minutes, hours = PATTERNS[pattern]
    every_hour = len(hours) == 24
    found = set()
    for offset in (change.before, change.after):
        instant = start
        while instant < end:
            instant += MINUTE
            wall = instant + offset
            if wall.minute not in minutes or wall.hour not in hours:
                continue
            is_old_clock = offset == change.before
            skipped = is_old_clock and change.at <= instant < change.at + (change.after - change.before)
            shown = instant < change.at if is_old_clock else instant >= change.at
            repeats = not is_old_clock and instant < change.at + (change.before - change.after)
            if skipped or (shown and (every_hour or not repeats)):
                found.add(instant)
    return sorted(instant for instant in found if start < instant <= end)


def _fired(pattern: str, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    cron, instant = parse_cron(pattern, zone), start
    while (fired := cron.next(instant)) is not None and fired <= end:
        yield fired
        instant = fired


def _fired_day(zone: str, instant: datetime) -> date:
    return instant.astimezone(ZoneInfo(zone)).date()


def _local_days(change: Change, start: datetime, end: datetime) -> Iterator[date]:
    instant = start
    while instant <= end:
        yield instant.astimezone(ZoneInfo(change.zone)).date()
        instant += HOUR


def _offset(where: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(where).utcoffset() or timedelta(0)
