"""Calling a handler so that nothing it does ends more than its own run."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from homing.app.handlers import Parameter
from homing.app.resources import Provider
from homing.worker.children.pool import Children
from homing.worker.endings import Raised, Returned, await_ending, returned
from homing.worker.run import Run
from homing.worker.threads import call_in_thread, contain


class Caller:
    """Calls handlers with what they ask for. `timeout_seconds`: the longest run of a handler that says nothing itself; `flow_of`: their children."""

    def __init__(
        self, provider: Provider, timeout_seconds: float, children: Children, flow_of: Callable[[Run], object]
    ) -> None:
        self._provider = provider
        self._flow_of = flow_of
        self._timeout_seconds = timeout_seconds
        self._children = children

    async def call(self, run: Run, session: object = None) -> Returned | Raised:
        """Run the handler to its end; `session` is what a parameter typed `Transaction[...]` gets."""
        arguments = self.arguments(run, session)
        timeout_seconds = self.timeout_seconds(run)
        match run.handler.kind:
            case "async":
                return await call_handler(run, arguments, timeout_seconds)
            case "thread":
                return await call_in_thread(run, lambda: contain(run, arguments), timeout_seconds)
            case "process":
                return await self._children.call(run, timeout_seconds)

    def arguments(self, run: Run, session: object) -> dict[str, Any]:
        """What the handler's parameters get besides the event, by name."""
        return {parameter.name: self._argument(parameter, run, session) for parameter in run.handler.parameters}

    def timeout_seconds(self, run: Run) -> float:
        """The longest this run may take."""
        own = run.handler.policy.timeout_seconds
        return self._timeout_seconds if own is None else own

    def _argument(self, parameter: Parameter, run: Run, session: object) -> object:
        match parameter.kind:
            case "transaction":
                return session
            case "job":
                return run.view
            case "flow":
                return self._flow_of(run)
            case "resource":
                return self._provider.get(parameter.type)


async def call_handler(run: Run, arguments: dict[str, Any], timeout_seconds: float) -> Returned | Raised:
    """Run an `async def` handler in a task of its own for at most `timeout_seconds`.

    Whatever it raises (`CancelledError`, `SystemExit`, exception groups) is this run's failure and nobody else's.
    """
    task = asyncio.create_task(_contain(run, arguments), name=f"run:{run.job.lease.job_id}")
    return await await_ending(run, task, task, lambda: stack_of(task), timeout_seconds)


async def _contain(run: Run, arguments: dict[str, Any]) -> Returned | Raised:
    try:
        value = await run.handler.function(run.argument, **arguments)
    except BaseException as error:  # noqa: BLE001 - even SystemExit is only this job's failure; it is judged by the caller
        return Raised(run.flow_end or error)
    return Raised(run.flow_end) if run.flow_end else returned(run.handler.result_of_one(value))


def stack_of(task: asyncio.Task[Any]) -> str:
    """Where a task stands now, as a traceback shows it."""
    return "".join(traceback.format_list(traceback.StackSummary.extract(_frames(task.get_coro()))))


def _frames(awaiting: object) -> Iterator[tuple[FrameType, int]]:
    """Where a suspended coroutine stands, down to what it waits for; a task itself knows its outermost frame only."""
    while awaiting is not None:
        frame = getattr(awaiting, "cr_frame", None) or getattr(awaiting, "gi_frame", None)
        if frame is None:
            return
        yield frame, frame.f_lineno
        awaiting = getattr(awaiting, "cr_await", None) or getattr(awaiting, "gi_yieldfrom", None)
