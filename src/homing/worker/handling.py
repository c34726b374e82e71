"""A handler at work in a task of its own, whose end somebody is told and nobody waits for."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from homing.worker.calling import stack_of
from homing.worker.deadlines import Deadlines
from homing.worker.endings import LETTING_GO_SECONDS, Raised, Returned, cancelled_by, report_stuck, returned
from homing.worker.run import Cause, Run


class Handling:
    """One run of an `async def` handler, begun when this is made; `on_end` is called once, with what it came to.

    Told to end, it has a while to do so; then it is left behind, and reported. Whatever the handler raises (`CancelledError`, `SystemExit`,
    exception groups) is its run's failure and nobody else's.
    """

    __slots__ = ("_deadlines", "_ended", "_giving_up", "_on_end", "_run", "_seconds", "_task")

    def __init__(
        self,
        run: Run,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float,
        deadlines: Deadlines,
        context: Context,
        on_end: Callable[[Returned | Raised], None],
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
            self._giving_up = asyncio.get_running_loop().call_later(LETTING_GO_SECONDS, self._give_up)
            self._task.add_done_callback(self._end_unbegun)

    def done(self) -> bool:
        """Whether it does nothing any more."""
        return self._task.done()

    async def _work(self, arguments: dict[str, Any]) -> None:
        run = self._run
        try:
            value = await run.handler.function(run.event, **arguments)
        except BaseException as error:  # noqa: BLE001 - even SystemExit is only this job's failure; it is judged later
            self._end(Raised(error))
        else:
            self._end(returned(value))

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
