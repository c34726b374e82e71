"""What waits after `Throttled` on a queue that limits by key; the decision, and its way out of a child process."""

import json
from dataclasses import replace
from typing import Literal

import pytest

from homing import Key, Throttled
from homing.app.options import Options
from homing.queue.outcome import KeyPaused, Paused, Postponed
from homing.worker.children.failures import describe, rebuild
from homing.worker.classify import Attempt, classify

KEYED = replace(Options().policy(), read_key=lambda _: "own", throttle="key")
Scope = Literal["queue", "job", "key"] | Key | None


@pytest.mark.parametrize(
    ("scope", "own_key", "waits"),
    [
        (None, "own", "own"),
        ("key", "own", "own"),
        (Key("other"), "own", "other"),
        (Key("other"), None, "other"),
        ("key", None, Postponed),
        ("job", "own", Postponed),
        ("queue", "own", Paused),
    ],
)
def test_what_waits_is_what_the_error_says(scope: Scope, own_key: str | None, waits: str | type) -> None:
    """The error names a key, its own key, the job or the queue; an event without a key makes its job wait."""
    verdict = classify(Throttled(9, scope=scope), Attempt(1, 1, own_key), KEYED, lambda: 0.5)
    if isinstance(waits, str):
        assert isinstance(verdict, KeyPaused)
        assert (verdict.key, verdict.delay_seconds) == (waits, 9)
    else:
        assert isinstance(verdict, waits)


def test_a_key_of_a_queue_without_keys_makes_its_job_wait() -> None:
    """Nobody would ask for that key, so that nothing else can wait."""
    verdict = classify(Throttled(9, scope=Key("other")), Attempt(1, 1), Options().policy(), lambda: 0.5)
    assert isinstance(verdict, Postponed)


@pytest.mark.parametrize("scope", [None, "queue", "key", Key("tenant 17")])
def test_a_scope_survives_the_way_out_of_a_child(scope: Scope) -> None:
    """What a handler in a child process asked for is what is done."""
    error = rebuild(json.loads(json.dumps(describe(Throttled(9, scope=scope)))))
    assert isinstance(error, Throttled)
    assert error.scope == scope
