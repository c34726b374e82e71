"""Limits as they are declared, judged and kept: pure."""

import logging
from typing import Literal

import pytest

from homing import Event, Homing, RateLimit, Throttled
from homing.durations import milliseconds, seconds
from homing.errors import RegistrationError
from homing.queue.outcome import Outcome, Paused, Postponed, outcome_name
from homing.queue.port import Limit, QueueSettings
from homing.queue.settings import read_settings, settings_fields
from homing.worker.children.failures import describe, rebuild
from homing.worker.classify import Attempt, Fatal, Verdict, classify

FOUR = RateLimit(4, per=seconds(1))


class Asked(Event, topic="limits.declared", unrouted=True):
    pass


def verdict(error: Exception, **declared: object) -> Verdict:
    """What a handler's error means on a queue that is declared like this."""
    app = Homing("test")

    @app.queue("work", **declared).handler("do", on=Asked, at_least_once=True)  # type: ignore[arg-type]  # by name
    async def do(event: Asked) -> None: ...

    (handler,) = app.handlers
    return classify(error, Attempt(number=1, starts=1), handler.policy, lambda: 0.5)


@pytest.mark.parametrize(
    ("declared", "scope", "pauses"),
    [
        ({}, None, False),
        ({"limit": FOUR}, None, True),
        ({"throttle": "queue"}, None, True),
        ({"limit": FOUR, "throttle": "job"}, None, False),
        ({}, "queue", True),
        ({"limit": FOUR}, "job", False),
    ],
)
def test_what_waits_after_a_throttle(declared: dict[str, object], scope: str | None, *, pauses: bool) -> None:
    """A queue with a limit waits, a job elsewhere; the declaration decides otherwise, and the error before it."""
    found = verdict(Throttled(7, scope=scope), **declared)  # type: ignore[arg-type]  # one of the two, or nothing
    assert isinstance(found, Paused if pauses else Postponed)
    assert found.delay_seconds == 7
    assert outcome_name(found) == "throttled"
    if isinstance(found, Paused):
        assert found.limit == (Limit(4, 1.0) if "limit" in declared else None)


def test_endless_throttling_meets_the_limit_of_starts() -> None:
    """A job that its queue waits for again and again is dead in the end."""
    app = Homing("test")

    @app.queue("work", limit=FOUR).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None: ...

    policy = app.handlers[0].policy
    assert isinstance(classify(Throttled(1), Attempt(1, policy.max_starts), policy, lambda: 0.5), Fatal)


@pytest.mark.parametrize("scope", ["queue", "job", None])
def test_a_child_process_says_what_waits(scope: Literal["queue", "job"] | None) -> None:
    """The scope that a handler asked for crosses the process boundary with the error."""
    rebuilt = rebuild(describe(Throttled(3, scope=scope)))
    assert isinstance(rebuilt, Throttled)
    assert (rebuilt.delay_seconds, rebuilt.scope) == (3, scope)


def test_a_pause_is_one_of_the_outcomes() -> None:
    """Nothing that ends a run is outside the closed set."""
    outcome: Outcome = Paused(1.0, "429")
    assert outcome_name(outcome) == "throttled"


@pytest.mark.parametrize("value", [0, -3])
def test_a_bound_below_one_is_refused(value: int) -> None:
    """A queue that may run nothing is a mistake, and the error names option and value."""
    with pytest.raises(RegistrationError, match=f"'work' has global_concurrency={value}: at least 1"):
        Homing("test").queue("work", global_concurrency=value)


def test_only_what_is_declared_is_said() -> None:
    """A queue that declares nothing leaves alone what others have set."""
    app = Homing("test")
    assert app.queue("plain").settings == QueueSettings()
    bounded = app.queue("bounded", global_concurrency=3, limit=RateLimit(4, per=milliseconds(1500)))
    assert bounded.settings == QueueSettings(concurrency=3, limit=Limit(4, 1.5))


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (QueueSettings(), "{}"),
        (QueueSettings(concurrency=3), '{"concurrency": 3}'),
        (QueueSettings(concurrency=None, limit=None), '{"concurrency": null, "max": null, "duration": null}'),
        (QueueSettings(limit=Limit(4, 1.5)), '{"max": 4, "duration": 1500}'),
    ],
)
def test_settings_come_back_as_they_were_kept(settings: QueueSettings, fields: str) -> None:
    """What was never said, what was taken back and what is in force are three things, in the row too."""
    assert read_settings("work", fields) == settings
    assert settings_fields(settings) == settings_fields(read_settings("work", fields))


@pytest.mark.parametrize(
    "text", ["", "7", "[1]", '"x"', '{"concurrency": 0}', '{"concurrency": "3"}', '{"max": true, "duration": -1}']
)
def test_nonsense_in_a_row_counts_as_not_said(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A row that somebody mistyped stops no queue; a warning names it."""
    with caplog.at_level(logging.WARNING, "homing.queue"):
        found = read_settings("work", text)
    assert found == QueueSettings()
    assert "queue work" in caplog.text
