"""The plan of a stop: the numbers that are printed are those that are kept, and what may be interrupted is said at start."""

import logging
from datetime import timedelta

import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import seconds
from homing.processes.plan import (
    MARGIN_SECONDS,
    StopPlan,
    announce_patience,
    longest_attempt,
    warn_of_long_attempts,
)
from homing.worker.worker import ENDING_SECONDS


class Asked(Event, topic="plan.asked", unrouted=True):
    number: int = 0


def app_with(timeout_seconds: float | None) -> Homing:
    app = Homing("plan")
    timeout = None if timeout_seconds is None else seconds(timeout_seconds)

    @app.queue("slow").handler("do", on=Asked, at_least_once=True, timeout=timeout)
    async def do(event: Asked) -> None: ...

    @app.queue("quick").handler("do", on=Asked, at_least_once=True, timeout=seconds(1))
    async def do_quickly(event: Asked) -> None: ...

    return app


@pytest.mark.parametrize(("grace", "longest", "recommended"), [(25, 45, 50), (0.3, 20.3, 26), (600, 620, 625)])
def test_longest_stop_and_what_the_orchestrator_is_told(
    caplog: pytest.LogCaptureFixture, grace: float, longest: float, recommended: int
) -> None:
    """Grace, ending and closing add up to the hard end, and the orchestrator is told a whole number beyond it."""
    caplog.set_level(logging.INFO)
    plan = StopPlan(grace)
    assert plan.longest_seconds == pytest.approx(longest)
    assert plan.longest_seconds - grace > ENDING_SECONDS
    assert plan.termination_grace_seconds == recommended >= plan.longest_seconds + MARGIN_SECONDS
    plan.announce("worker ready")
    assert caplog.messages[0].startswith("worker ready; on SIGTERM")
    assert caplog.messages[0].endswith(
        f"ends within {longest:g} s: terminationGracePeriodSeconds should be at least {recommended}"
    )


@pytest.mark.parametrize(("own", "longest"), [(None, 60), (300, 300), (10, 10)])
def test_longest_attempt_is_found(own: float | None, longest: float) -> None:
    """A handler's own time-out counts, and for the others the setting."""
    assert longest_attempt(app_with(own), Settings()) == (longest, "slow.do")


@pytest.mark.parametrize(
    ("own", "chosen", "level"),
    [
        (None, {}, "INFO"),
        (None, {"shutdown_grace": seconds(25)}, "WARNING"),
        (None, {"attempt_timeout": seconds(30)}, "WARNING"),
        (300, {}, "WARNING"),
        (20, {}, None),
        (25, {"shutdown_grace": seconds(25)}, None),
    ],
    ids=["nobody chose", "chosen grace", "chosen time-out", "long handler", "short handler", "handler that just fits"],
)
def test_run_that_may_outlast_the_grace_is_warned_of(
    caplog: pytest.LogCaptureFixture, own: float | None, chosen: dict[str, timedelta], level: str | None
) -> None:
    """One line names the longest run and both values: a warning where somebody chose a number, a note with the defaults."""
    caplog.set_level(logging.INFO)
    settings = Settings(**chosen)  # type: ignore[arg-type]  # by name
    warn_of_long_attempts(app_with(own), settings)
    assert [record.levelname for record in caplog.records] == ([] if level is None else [level])
    if level is not None:
        longest = own or settings.attempt_timeout.total_seconds()
        assert f"slow.do may run for {longest:g} s and HOMING_SHUTDOWN_GRACE is 25 s" in caplog.messages[0]


def test_patience_of_every_handler_is_said_at_start(caplog: pytest.LogCaptureFixture) -> None:
    """Attempts, the retry horizon and the time of one attempt, with the default where a handler says nothing."""
    caplog.set_level(logging.INFO)
    announce_patience(app_with(None), Settings())
    assert caplog.messages == [
        "quick.do (at least once): 8 attempts within 4m 14s of waiting, each at most 1s",
        "slow.do (at least once): 8 attempts within 4m 14s of waiting, each at most 1m",
    ]
