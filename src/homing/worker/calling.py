"""Calling a handler so that nothing it does ends more than its own run."""

import asyncio
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from homing.app.handlers import Parameter
from homing.app.resources import Provider
from homing.deadletters.report import fits_jsonb
from homing.errors import AttemptTimeout, PermanentError
from homing.events.codec import dump_json
from homing.worker.run import Cause, Run

log = logging.getLogger("homing.worker")

LETTING_GO_SECONDS = 10.0
"""How long a cancelled handler may take to end before it is left alone and reported."""


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


class Caller:
    """Calls handlers with what they ask for. `timeout_seconds`: the longest run of a handler that says nothing itself."""

    def __init__(self, provider: Provider, timeout_seconds: float) -> None:
        self._provider = provider
        self._timeout_seconds = timeout_seconds

    async def call(self, run: Run, session: object = None) -> Returned | Raised:
        """Run the handler to its end; `session` is what a parameter typed `Transaction[...]` gets."""
        arguments = {parameter.name: self._argument(parameter, run, session) for parameter in run.handler.parameters}
        own = run.handler.policy.timeout_seconds
        return await call_handler(run, arguments, self._timeout_seconds if own is None else own)

    def _argument(self, parameter: Parameter, run: Run, session: object) -> object:
        match parameter.kind:
            case "transaction":
                return session
            case "job":
                return run.view
            case "resource":
                return self._provider.get(parameter.type)


async def call_handler(run: Run, arguments: dict[str, Any], timeout_seconds: float) -> Returned | Raised:
    """Run the handler in a task of its own for at most `timeout_seconds`.

    Whatever it raises (`CancelledError`, `SystemExit`, exception groups) is this run's failure and nobody else's.
    """
    task = asyncio.create_task(_contain(run, arguments), name=f"run:{run.job.lease.job_id}")
    told = run.watch(task)
    either: set[asyncio.Future[Any]] = {task, told}
    await asyncio.wait(either, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    if not task.done() and not told.done():
        run.cancel(Cause.TIMEOUT)
    if not task.done():
        await asyncio.wait({task}, timeout=LETTING_GO_SECONDS)
    if not task.done():
        await _report_stuck(run, task)
        return Raised(_cancelled_by(run, timeout_seconds, None), run.cause, stuck=True)
    ended = Raised(asyncio.CancelledError()) if task.cancelled() else task.result()
    if isinstance(ended, Raised) and run.cause is not None:
        return Raised(_cancelled_by(run, timeout_seconds, ended.error), run.cause)
    return ended


async def _contain(run: Run, arguments: dict[str, Any]) -> Returned | Raised:
    try:
        value = await run.handler.function(run.event, **arguments)
    except BaseException as error:  # noqa: BLE001 - even SystemExit is only this job's failure; it is judged by the caller
        return Raised(error)
    try:
        result = dump_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        refused = PermanentError(f"the handler returned {type(value).__name__}, which is no JSON value: {error}")
        return Raised(refused)
    if not fits_jsonb(value):
        return Raised(
            PermanentError("the handler returned text with NUL or a lone surrogate, or nests too deep for jsonb")
        )
    return Returned(result)


def _cancelled_by(run: Run, timeout_seconds: float, error: BaseException | None) -> BaseException:
    if run.cause is Cause.TIMEOUT:
        timeout = AttemptTimeout(f"the run took longer than {timeout_seconds:g} s")
        timeout.__cause__ = error
        return timeout
    return error or asyncio.CancelledError()


async def _report_stuck(run: Run, task: asyncio.Task[Any]) -> None:
    stack = "".join(traceback.format_list(traceback.StackSummary.extract(_frames(task.get_coro()))))
    log.error(
        "%s (%s) was told to end and has not for %g s: %s\n%s",
        run.handler.location,
        run.job.lease.job_id,
        LETTING_GO_SECONDS,
        run.cause.value if run.cause else "",
        stack,
    )


def _frames(awaiting: object) -> Iterator[tuple[FrameType, int]]:
    """Where a suspended coroutine stands, down to what it waits for; a task itself knows its outermost frame only."""
    while awaiting is not None:
        frame = getattr(awaiting, "cr_frame", None) or getattr(awaiting, "gi_frame", None)
        if frame is None:
            return
        yield frame, frame.f_lineno
        awaiting = getattr(awaiting, "cr_await", None) or getattr(awaiting, "gi_yieldfrom", None)
