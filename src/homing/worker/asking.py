"""Asking the application how long to wait: what it says counts, and its mistakes cost a line in the log."""

import asyncio
import inspect
import logging
from dataclasses import replace
from datetime import timedelta

from homing.backoff import MAX_WAIT_SECONDS, Ask
from homing.deadletters.report import report_error
from homing.queue.outcome import Retry
from homing.worker.classify import Fatal
from homing.worker.endings import is_cancelled

log = logging.getLogger("homing.worker")

ASKING_SECONDS = 10.0
"""How long an application may think about a wait."""


async def ask_for_wait(ask: Ask, attempt: int, error: BaseException, shipped: Retry) -> Retry | Fatal:
    """The wait that the application wants; below zero, the death of the job. `shipped` holds when it gives no answer."""
    try:
        seconds = await _answer(ask, attempt, error)
    except BaseException as mistake:  # the application's own code, SystemExit too: no failure of the worker
        if is_cancelled():
            raise
        log.warning(
            "the backoff %s gives no answer, so the job waits %.1f s: %s",
            getattr(ask, "__qualname__", ask),
            shipped.delay_seconds,
            report_error(mistake).summary,
        )
        return shipped
    if seconds < 0:
        return Fatal(report_error(error).final("exhausted"))
    return replace(shipped, delay_seconds=min(seconds, MAX_WAIT_SECONDS))


async def _answer(ask: Ask, attempt: int, error: BaseException) -> float:
    """Seconds; a `TypeError` or `ValueError` for what is no time."""
    answer = ask(attempt, error)
    if inspect.isawaitable(answer):
        async with asyncio.timeout(ASKING_SECONDS):
            answer = await answer
    if isinstance(answer, timedelta):
        return answer.total_seconds()
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise TypeError(f"a wait is a timedelta or a number of seconds, not {answer!r}")
    if answer != answer:  # noqa: PLR0124 - the one number that differs from itself
        raise ValueError("a wait that is not a number")
    return float(answer)
