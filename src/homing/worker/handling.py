"""A handler at work in a task of its own, whose end somebody is told and nobody waits for."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from contextvars import Context
from types import FrameType
from typing import Any

from homing.worker import endings
from homing.worker.deadlines import Deadlines
from homing.worker.endings import Raised, Returned, cancelled_by, report_stuck, returned
from homing.worker.run import Cause, Run


class Handling:
    """One run of an `async def` handler, begun when this is made; `on_end` is called once, with what it came to.

    It works in `context`, or in a copy of the present one. Told to end, it has a while to do so; then it is left behind, and reported.
    Whatever the handler raises (`CancelledError`, `SystemExit`, exception groups) is its run's failure and nobody else's.
    """

    __slots__ = ("_deadlines", "_ended", "_giving_up", "_on_end", "_run", "_seconds", "_task")

    def __init__(
        self,
        run: Run,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float,
        deadlines: Deadlines,
        on_end: Callable[[Returned | Raised], None],
        context: Context | None = None,
    ) -> None:
        self._run = run
        self._seconds = timeout_seconds
        self._deadlines = deadlines
        self._on_end = on_end
        self._ended = False
        self._giving_up: asyncio.TimerHandle | None = None
        self._task = asyncio.get_running_loop().create_task(
            self._work(arguments), name=f"run:{run.job.lease.job_id}", context=context
        )
        deadlines.begin(self, timeout_seconds)

    def expire(self) -> None:
        """Its attempt took too long."""
        self._run.cancel(Cause.TIMEOUT)

    def cancel(self) -> None:
        """Tell it to end; it may take its time, or not listen."""
        if self._ended:
            return
        self._task.cancel()
        if self._giving_up is None:
            self._giving_up = asyncio.get_running_loop().call_later(endings.LETTING_GO_SECONDS, self._give_up)
            self._task.add_done_callback(self._end_unbegun)

    def done(self) -> bool:
        """Whether it does nothing any more."""
        return self._task.done()

    async def _work(self, arguments: dict[str, Any]) -> None:
        run = self._run
        try:
            value = await run.handler.function(run.argument, **arguments)
            ending = Raised(run.flow_end) if run.flow_end else returned(run.handler.result_of_one(value))
        except BaseException as error:  # noqa: BLE001 - even SystemExit is only this job's failure; it is judged later
            ending = Raised(run.flow_end or error)
        self._end(ending)

    def _end(self, ending: Returned | Raised) -> None:
        if self._ended:  # it was left behind
            return
        self._ended = True
        self._deadlines.end(self, self._seconds)
        if self._giving_up is not None:
            self._giving_up.cancel()
        if isinstance(ending, Raised) and self._run.cause is not None:
            ending = Raised(cancelled_by(self._run, self._seconds, ending.error), self._run.cause, ending.stuck)
        self._on_end(ending)

    def _end_unbegun(self, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step never comes to its own end."""
        if task.cancelled():
            self._end(Raised(asyncio.CancelledError()))

    def _give_up(self) -> None:
        report_stuck(self._run, stack_of(self._task))
        self._end(Raised(asyncio.CancelledError(), stuck=True))


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
