"""When a schedule fires: after a tick, after a long silence, at its end."""

from datetime import UTC, datetime

import pytest

from homing.queue.schedules import MOST_MISSED, Schedule

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return round(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


def cron(pattern: str, **terms: object) -> Schedule:
    return Schedule(id="s", job_name="j", cron=pattern, **terms)  # type: ignore[arg-type]  # tests name what matters


def every(milliseconds: int, **terms: object) -> Schedule:
    return Schedule(id="s", job_name="j", every_ms=milliseconds, **terms)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("late", [0, 1, HOUR - 1, HOUR, HOUR + 1, 25 * HOUR + 7])
def test_an_interval_goes_on_in_its_phase(late: int) -> None:
    """The next tick lies in the future, or is now, and no missed one is made up."""
    due = ms(2026, 5, 1) + 12_345
    following = every(HOUR).after(due, due + late)
    assert following is not None
    assert following >= due + late
    assert following - (due + late) <= HOUR
    assert (following - due) % HOUR == 0
    assert every(HOUR).missed(due, due + late) == (following - due) // HOUR - 1


def test_a_pattern_goes_on_after_now() -> None:
    """Late by three nights: the next is the next night, two were missed, and the last of them is known."""
    due, now = ms(2026, 5, 1, 3), ms(2026, 5, 3, 4)
    nightly = cron("0 3 * * *")
    assert nightly.after(due, now) == ms(2026, 5, 4, 3)
    assert nightly.missed(due, now) == 2
    assert nightly.latest(due, now) == ms(2026, 5, 3, 3)
    assert nightly.upcoming(due, 1, 3) == [ms(2026, 5, day, 3) for day in (1, 2, 3)]


@pytest.mark.parametrize(
    ("pattern", "silence", "last"),
    [
        ("* * * * * *", 40 * DAY, 0),
        ("* * * * *", 40 * DAY, 0),
        ("30 * * * *", 40 * DAY, 30 * MINUTE),
        ("0 0 1 1 *", 300 * DAY, 300 * DAY),
    ],
)
def test_the_last_tick_is_found_at_once_after_any_silence(pattern: str, silence: int, last: int) -> None:
    """However many there were, and also where there was none since."""
    now = ms(2026, 10, 28)
    due = now - silence
    assert cron(pattern).latest(due, now) == now - last
    assert cron(pattern).missed(due, now) <= MOST_MISSED


def test_nothing_fires_before_the_start_after_the_end_or_beyond_the_limit() -> None:
    """A start is a time at which it may fire, and so is an end."""
    day = ms(2026, 5, 1)
    bounded = cron("0 * * * *", start_ms=day, end_ms=day + 2 * HOUR)
    assert bounded.first(day - DAY, 0) == day
    assert bounded.upcoming(day, 1, 9) == [day, day + HOUR, day + 2 * HOUR]
    assert bounded.after(day + 2 * HOUR, day + 2 * HOUR) is None
    assert bounded.first(day + 3 * HOUR, 0) is None
    assert every(HOUR, limit=3).upcoming(day, 2, 9) == [day, day + HOUR]
    assert every(HOUR, limit=3).first(day, 3) is None
    assert every(HOUR, start_ms=day).first(day - DAY, 0) == day


def test_a_new_schedule_that_is_immediate_fires_now_and_only_then() -> None:
    """Once it has ticked it goes by its pattern."""
    now = ms(2026, 5, 1, 12, 7)
    assert cron("0 3 * * *", immediate=True).first(now, 0) == now
    assert cron("0 3 * * *", immediate=True).first(now, 1) == ms(2026, 5, 2, 3)


def test_the_same_is_the_same_however_its_json_is_written() -> None:
    """Blanks and the order of names mean nothing, and neither does what is only for a new one."""
    one = cron("0 3 * * *", data='{"a": 1, "b": 2}', options="{}")
    assert one.is_as(cron("0 3 * * *", data='{"b":2,"a":1}', options="{ }", immediate=True))
    assert not one.is_as(cron("0 3 * * *", data='{"b":2,"a":2}'))
    assert not one.is_as(cron("0 3 * * *", data='{"a": 1, "b": 2}', zone="Europe/Paris"))


@pytest.mark.parametrize("pattern", ["0 3 * *", "3", "H 3 * * *", ""])
def test_what_node_lets_people_leave_out_is_any(pattern: str) -> None:
    """Fewer fields than five are filled from the front, as in Node; what neither reads is said."""
    if "H" in pattern or not pattern:
        with pytest.raises(ValueError, match="cron pattern"):
            cron(pattern).first(ms(2026, 5, 1), 0)
    else:
        assert cron(pattern).first(ms(2026, 5, 1), 0) is not None


def test_times_are_told_in_utc() -> None:
    """A zone decides when; what comes out is an instant."""
    paris = cron("30 2 * * *", zone="Europe/Paris").first(ms(2026, 10, 24, 23), 0)
    assert paris == ms(2026, 10, 25, 0, 30)
    assert datetime.fromtimestamp(paris / 1000, UTC).minute == 30
