"""Asking the application how long to wait."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from homing import Retry
from homing.app.options import SHIPPED_BACKOFF, Options
from homing.backoff import MAX_WAIT_SECONDS, fixed
from homing.errors import RegistrationError
from homing.queue.outcome import Retry as RetryOutcome
from homing.worker import asking
from homing.worker.asking import ask_for_wait
from homing.worker.classify import Fatal

SHIPPED = RetryOutcome(7.0, "OSError: away")
ERROR = OSError("away")


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [(timedelta(seconds=3), 3.0), (0, 0.0), (2.5, 2.5), (float("inf"), MAX_WAIT_SECONDS), (10**12, MAX_WAIT_SECONDS)],
)
async def test_what_it_says_counts(answer: Any, seconds: float) -> None:
    """As a timedelta or in seconds, and never beyond the longest wait."""
    assert await ask_for_wait(lambda _, __: answer, 1, ERROR, SHIPPED) == RetryOutcome(seconds, "OSError: away")


@pytest.mark.parametrize("answer", [timedelta(microseconds=-1), -1, float("-inf")])
async def test_below_zero_is_enough(answer: Any) -> None:
    """The job is dead as one whose attempts are used up."""
    verdict = await ask_for_wait(lambda _, __: answer, 1, ERROR, SHIPPED)
    assert isinstance(verdict, Fatal)
    assert verdict.report.reason == "exhausted"


@pytest.mark.parametrize("answer", ["3", None, True, float("nan")])
async def test_no_time_is_no_answer(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The shipped rule decides, and a line says why."""
    assert await ask_for_wait(lambda _, __: answer, 1, ERROR, SHIPPED) == SHIPPED
    assert "gives no answer" in caplog.text


async def test_one_that_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bound holds for those who ask somebody else."""
    monkeypatch.setattr(asking, "ASKING_SECONDS", 0.01)

    async def silent(attempt: int, error: BaseException) -> float:
        await asyncio.get_running_loop().create_future()
        return 0.0

    assert await ask_for_wait(silent, 1, ERROR, SHIPPED) == SHIPPED
    assert "TimeoutError" in caplog.text


def test_a_rule_of_ones_own_merges_like_any_other() -> None:
    """Handler over queue over app; the shipped rule stands behind it; a rule given above it wins."""

    def own(attempt: int, error: BaseException) -> float:
        return 1.0

    policy = Options(retry=Retry(backoff=own)).policy()
    assert (policy.ask, policy.backoff, policy.describe_horizon()) == (own, SHIPPED_BACKOFF, "its own rule")
    above = Options(retry=Retry(backoff=fixed(timedelta(seconds=1)))).over(Options(retry=Retry(backoff=own))).policy()
    assert above.ask is None
    with pytest.raises(RegistrationError, match="neither a rule"):
        Retry(backoff=3)  # type: ignore[arg-type]  # that is the point
