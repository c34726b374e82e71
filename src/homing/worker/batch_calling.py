"""Calling a batch handler once for many runs, on the event loop or in a thread; how such a call comes to its end."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from homing.app.handlers import Handler, Told
from homing.errors import AttemptTimeout, PermanentError
from homing.worker.calling import Caller
from homing.worker.endings import LETTING_GO_SECONDS, Ending, Raised, Returned, report_stuck, returned
from homing.worker.handling import stack_of
from homing.worker.run import Cause, Run, Running
from homing.worker.threads import ThreadRun

T = TypeVar("T")

Endings = dict[int, Ending]
"""What came of the runs of a batch, by their place in it; a place that is missing must be run alone."""


async def call_batch(runs: Sequence[Run], caller: Caller, session: object) -> list[Returned] | Endings:
    """Call a batch handler once: a result per run, or the endings of those that were told to end, before it begins even; the others go alone."""
    if over := told_to_end(runs):
        return over
    handler, timeout_seconds = runs[0].handler, caller.timeout_seconds(runs[0])
    events = [run.event for run in runs]
    told = threading.Event()
    arguments = arguments_of(runs, caller, session, told)
    called: list[Returned] | Raised | None
    if handler.kind == "thread":
        thread = ThreadRun(f"batch:{handler.consumer}", lambda: contain(handler, events, arguments), on_cancel=told.set)
        called = await await_batch(runs, thread, thread.ending, thread.stack, timeout_seconds)
    else:
        task = asyncio.create_task(_contain(handler, events, arguments), name=f"batch:{handler.consumer}")
        called = await await_batch(runs, task, task, lambda: stack_of(task), timeout_seconds)
    return called if isinstance(called, list) else told_to_end(runs)


async def await_batch(
    runs: Sequence[Run],
    running: Running,
    ending: "asyncio.Future[T]",
    stack: Callable[[], str],
    timeout_seconds: float,
) -> T | None:
    """Wait for a call at work, tell it to end when its time is up or one of its runs must end; `None` when it came to nothing.

    The time of one attempt is the time of the whole batch. A call that does not listen is reported, and all its runs are over: run alone,
    they would run beside it.
    """
    told = [run.watch(running) for run in runs]
    waited: set[asyncio.Future[Any]] = {ending, *told}
    await asyncio.wait(waited, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        running.cancel()
        await asyncio.wait({ending}, timeout=LETTING_GO_SECONDS)
    if ending.done():
        return None if ending.cancelled() else ending.result()
    for run in runs:
        run.cancel(Cause.TIMEOUT)
    report_stuck(runs[0], stack())
    return None


def told_to_end(runs: Sequence[Run]) -> Endings:
    """The endings of the runs that were told to end."""
    return {
        place: Raised(AttemptTimeout(run.cause.value), run.cause, stuck=not run.ended)
        for place, run in enumerate(runs)
        if run.cause is not None
    }


def arguments_of(runs: Sequence[Run], caller: Caller, session: object, told: threading.Event) -> dict[str, Any]:
    """What the handler's parameters get besides the events; the `Job` is the first run's, hears when any of them must end, and tells of all."""

    def tell(kind: Told, text: str) -> None:
        for run in runs:
            run.tell(kind, text)

    arguments = caller.arguments(runs[0], session)
    view = replace(runs[0].view, _told_to_end=told.is_set, _tell=tell)
    return arguments | {parameter.name: view for parameter in runs[0].handler.parameters if parameter.kind == "job"}


def contain(handler: Handler, events: Sequence[Any], arguments: dict[str, Any]) -> list[Returned] | Raised:
    """Call a plain batch handler; whatever it raises is the failure of its batch and nobody else's."""
    try:
        value = handler.function(events, **arguments)
    except BaseException as error:  # noqa: BLE001 - the batch has failed; each run alone will show whose failure it is
        return Raised(error)
    return _results(events, value)


async def _contain(handler: Handler, events: Sequence[Any], arguments: dict[str, Any]) -> list[Returned] | Raised:
    try:
        value = await handler.function(events, **arguments)
    except BaseException as error:  # noqa: BLE001 - as above
        return Raised(error)
    return _results(events, value)


def _results(events: Sequence[Any], value: object) -> list[Returned] | Raised:
    if value is None:
        return [Returned("null")] * len(events)
    if not isinstance(value, (list, tuple)) or len(value) != len(events):
        return Raised(
            PermanentError(f"a batch of {len(events)} returned {type(value).__name__}, not a result per event")
        )
    results = [returned(result) for result in value]
    refused = next((result for result in results if isinstance(result, Raised)), None)
    return refused if refused is not None else cast("list[Returned]", results)
