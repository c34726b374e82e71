"""What is shipped, and what may not be asked for."""

from datetime import timedelta
from typing import Any

import pytest

from homing import FOREVER, Homing, Keep, RateLimit, Retry, backoff
from homing.app.options import DEFAULTS, LONGEST, Options
from homing.config.settings import Settings
from homing.durations import days, minutes, seconds
from homing.errors import RegistrationError
from homing.http import THROTTLE_SECONDS
from homing.queue.job import KeepRule
from homing.queue.port import Limit


def test_the_shipped_defaults_are_these_numbers() -> None:
    """Whoever changes a default changes a promise: each number is pinned."""
    policy = DEFAULTS.policy()
    assert policy.attempts == 8
    assert policy.backoff == backoff.exponential(seconds(2), jitter=0.5)
    assert policy.max_starts == 50
    assert policy.timeout_seconds is None
    assert Settings().attempt_timeout == seconds(60)
    assert policy.deadline_seconds == 14 * 86400
    assert policy.keep_completed == KeepRule(age_seconds=86400, count=10_000)
    assert policy.keep_failed == KeepRule(age_seconds=14 * 86400, count=None)


def test_the_shipped_settings_are_these_numbers() -> None:
    """The same for what a process is configured with."""
    settings = Settings()
    assert settings.lease == seconds(30)
    assert settings.beat == seconds(5)
    assert settings.rescue == seconds(15)
    assert settings.shutdown_grace == seconds(25)
    assert settings.attempt_timeout == seconds(60)
    assert settings.relay_batch == 500
    assert settings.relay_poll == timedelta(milliseconds=500)
    assert settings.retention.events == days(30)
    assert settings.retention.inbox == days(30)
    assert settings.retention.dead_letters == days(90)
    assert THROTTLE_SECONDS == 10


def test_options_merge_handler_over_queue_over_app_over_default() -> None:
    """Each field comes from the nearest level that names it, inside `retry` too."""
    app = Options(retry=Retry(attempts=3, backoff=backoff.fixed(seconds(1))), timeout=seconds(10), deadline=days(1))
    queue = Options(retry=Retry(attempts=5), timeout=seconds(20), keep_failed=FOREVER)
    handler = Options(retry=Retry(max_starts=9), timeout=seconds(30))
    policy = handler.over(queue.over(app)).policy()
    assert (policy.attempts, policy.max_starts, policy.timeout_seconds) == (5, 9, 30)
    assert policy.backoff == backoff.fixed(seconds(1))
    assert policy.deadline_seconds == 86400
    assert policy.keep_failed == KeepRule()
    assert policy.keep_completed == DEFAULTS.policy().keep_completed


def test_a_queue_takes_what_it_does_not_say_from_its_app() -> None:
    """The merge happens where a queue is declared, not only in theory."""
    app = Homing("test", retry=Retry(attempts=3), timeout=minutes(1))
    queue = app.queue("payments", retry=Retry(max_starts=7))
    assert queue.options.retry == Retry(attempts=3, max_starts=7)
    assert queue.options.timeout == minutes(1)


def test_more_attempts_than_starts_raise_the_starts() -> None:
    """Sixty attempts under the default of fifty starts are sixty starts: attempts were asked for."""
    assert Options(retry=Retry(attempts=60)).policy().max_starts == 60


def test_job_options_are_what_the_relay_stores() -> None:
    """The options that travel with a subscription name every unit."""
    policy = Options(retry=Retry(backoff=backoff.capped(seconds(2), cap=minutes(15)))).policy()
    assert policy.job_options() == {
        "attempts": 8,
        "backoff": {"kind": "exponential", "delaySeconds": 2.0, "jitter": 0.5, "capSeconds": 900.0},
        "keepCompleted": {"ageSeconds": 86400.0, "count": 10_000},
        "keepFailed": {"ageSeconds": 1209600.0, "count": None},
        "deadlineSeconds": 1209600.0,
    }


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"attempts": 0}, r"Retry\(attempts=0\): at least 1"),
        ({"attempts": -3}, r"attempts=-3"),
        ({"max_starts": 0}, r"Retry\(max_starts=0\): at least 1"),
        ({"attempts": 5, "max_starts": 4}, r"attempts=5, max_starts=4\): no attempt happens without a start"),
    ],
)
def test_a_retry_that_cannot_run_is_refused(values: dict[str, int], text: str) -> None:
    """A job runs at least once, and each attempt is a start."""
    with pytest.raises(RegistrationError, match=text):
        Retry(attempts=values.get("attempts"), max_starts=values.get("max_starts"))


@pytest.mark.parametrize("limit", [(0, seconds(1)), (-1, seconds(1)), (4, timedelta(0)), (4, seconds(-1))])
def test_a_limit_of_nothing_is_refused(limit: tuple[int, timedelta]) -> None:
    """A queue that starts nothing is a pause, and pausing is an act, not a declaration."""
    with pytest.raises(RegistrationError, match=r"RateLimit\(.*greater than zero"):
        RateLimit(*limit)


def test_a_limit_goes_to_the_engine_in_seconds() -> None:
    """The unit changes at the edge only."""
    assert RateLimit(4, minutes(1)).limit() == Limit(4, 60.0)


@pytest.mark.parametrize("keep", [Keep(age=seconds(-1)), Keep(count=-1)])
def test_a_negative_keep_is_refused_by_name(keep: Keep) -> None:
    """What is kept is an age or a count, never less than nothing."""
    with pytest.raises(RegistrationError, match=r"-1"):
        keep.rule()


def test_nothing_and_everything_can_be_kept() -> None:
    """Zero is a value, not a missing one."""
    assert Keep(count=0).rule() == KeepRule(count=0)
    assert FOREVER.rule() == KeepRule()


@pytest.mark.parametrize("name", ["timeout", "deadline"])
@pytest.mark.parametrize("value", [timedelta(0), seconds(-1), LONGEST + seconds(1), timedelta.max])
def test_times_that_cannot_be_kept_are_refused(name: str, value: timedelta) -> None:
    """A time-out or deadline of nothing, or beyond every date, names itself and its value."""
    options = Options(timeout=value) if name == "timeout" else Options(deadline=value)
    with pytest.raises(RegistrationError, match=rf"{name}=.*greater than zero and at most 36,500 days"):
        options.policy()


@pytest.mark.parametrize("value", [1.0, "30s"])
def test_a_time_without_a_unit_is_refused(value: Any) -> None:
    """Nobody can tell whether a number means seconds."""
    with pytest.raises(RegistrationError, match=r"timeout=.*give a duration, such as seconds\(30\)"):
        Options(timeout=value).policy()


def test_attempts_of_one_level_over_starts_of_another_are_no_error() -> None:
    """Two numbers that nobody wrote side by side are not refused: the attempts that were asked for are made."""
    merged = Options(retry=Retry(attempts=20)).over(Options(retry=Retry(max_starts=10)))
    assert merged.policy().attempts == merged.policy().max_starts == 20
