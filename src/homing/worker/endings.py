"""How a handler at work comes to its end: it returns, it raises, it is told to end, or it does not listen."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from homing.deadletters.report import fits_jsonb
from homing.errors import AttemptTimeout, HandlerEndedTransaction, PermanentError
from homing.events.codec import dump_json
from homing.ledger.gate import Decision
from homing.records import quickly_made
from homing.worker.run import Cause, Run, Running

log = logging.getLogger("homing.worker")

T = TypeVar("T")

LETTING_GO_SECONDS = 10.0
"""How long a cancelled handler may take to end before it is left alone and reported."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Returned:
    """The handler came to its end; `result` is JSON text."""

    result: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler failed. `cause` is set when Homing ended it; `stuck`: it has not ended and may still run."""

    error: BaseException
    cause: Cause | None = None
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """The gate said that the handler must not run, or must not count."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Torn:
    """The handler ended the transaction past the guard; what it did before that is committed, the rest is rolled back."""

    error: HandlerEndedTransaction


@dataclass(frozen=True, slots=True)
class Unsure:
    """The database did not answer while we settled: nothing is known, nothing is judged, the row decides at the next gate."""

    reason: str


@dataclass(frozen=True, slots=True)
class Died:
    """The child process in which a suspect ran alone has died of it: the suspect is convicted."""

    reason: str


Ending = Returned | Raised | Stopped | Torn | Unsure | Died


async def await_ending(
    run: Run,
    running: Running,
    ending: "asyncio.Future[T]",
    stack: Callable[[], str],
    timeout_seconds: float,
) -> T | Raised:
    """Wait for a handler at work, tell it to end when its time is up, and give up on one that does not listen.

    `ending` is what it comes to; `stack` says where it stands, for the report of one that is stuck.
    """
    over = run.watch(running)
    ending.add_done_callback(partial(_wake, over))
    timer = asyncio.get_running_loop().call_later(timeout_seconds, run.cancel, Cause.TIMEOUT)
    try:
        await over
    finally:
        timer.cancel()
    if not ending.done():
        await asyncio.wait({ending}, timeout=LETTING_GO_SECONDS)
    if not ending.done():
        report_stuck(run, stack())
        return Raised(cancelled_by(run, timeout_seconds, None), run.cause, stuck=True)
    ended: T | Raised = Raised(asyncio.CancelledError()) if ending.cancelled() else ending.result()
    if isinstance(ended, Raised) and run.cause is not None:
        return Raised(cancelled_by(run, timeout_seconds, ended.error), run.cause)
    return ended


def _wake(over: asyncio.Future[None], _: object) -> None:
    if not over.done():
        over.set_result(None)


def returned(value: object) -> Returned | Raised:
    """What a handler's return value comes to: JSON that every store keeps, or the handler's own mistake."""
    if value is None:
        return Returned("null")
    try:
        result, fits = dump_json(value), fits_jsonb(value)
    except BaseException as error:  # noqa: BLE001 - reading a mapping of the application's own runs its code, which may raise anything
        refused = PermanentError(f"the handler returned {type(value).__name__}, which is no JSON value: {error}")
        refused.__cause__ = error
        return Raised(refused)
    if not fits:
        return Raised(
            PermanentError("the handler returned text with NUL or a lone surrogate, or nests too deep for jsonb")
        )
    return Returned(result)


def cancelled_by(run: Run, timeout_seconds: float, error: BaseException | None) -> BaseException:
    """What a run that was told to end is judged by: its timeout, else what its handler raised then."""
    if run.cause is Cause.TIMEOUT:
        timeout = AttemptTimeout(f"the run took longer than {timeout_seconds:g} s")
        timeout.__cause__ = error
        return timeout
    return error or asyncio.CancelledError()


def is_cancelled() -> bool:
    """Whether somebody cancelled this very task: otherwise a `CancelledError` that arrives in it is the application's own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def report_stuck(run: Run, stack: str) -> None:
    """Say which handler goes on although it was told to end, and where it stands."""
    log.error(
        "%s (%s) was told to end and has not for %g s: %s\n%s",
        run.handler.location,
        run.job.lease.job_id,
        LETTING_GO_SECONDS,
        run.cause.value if run.cause else "",
        stack,
    )


def refused(text: str, ending: "Returned | Raised") -> Raised:
    """The ending of a handler that ended its transaction, with what it raised itself as the cause."""
    error = HandlerEndedTransaction(text)
    if isinstance(ending, Raised) and not isinstance(ending.error, HandlerEndedTransaction):
        error.__cause__ = ending.error
    return Raised(error)


def torn(began: str, now: object) -> Torn:
    """The ending of a run whose transaction is not the one that settled it."""
    text = f"the handler ended the transaction by itself: it began as {began}, and at the end it is {now}"
    return Torn(HandlerEndedTransaction(text))
