"""Plain functions in threads: each run has a thread of its own, so that one that does not listen costs nobody else's slot."""

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from homing.worker.endings import Raised, Returned, await_ending, returned
from homing.worker.run import Run

T = TypeVar("T")


class ThreadRun(Generic[T]):
    """Work in a thread of its own, in the context of the task that started it.

    A thread cannot be ended from outside: `cancel` does nothing by itself, the run's `told_to_end` says it. The thread is a daemon, so
    that work which never ends does not keep the process.
    """

    def __init__(self, name: str, work: Callable[[], T], on_cancel: Callable[[], None] | None = None) -> None:
        self._on_cancel = on_cancel
        self._loop = asyncio.get_running_loop()
        self.ending: asyncio.Future[T] = self._loop.create_future()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work, work), name=name, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Nothing can be done to a thread; whoever works in it looks at `told_to_end`, or is told by `on_cancel`."""
        if self._on_cancel is not None:
            self._on_cancel()

    def done(self) -> bool:
        """Whether the thread has ended."""
        return self.ending.done()

    def stack(self) -> str:
        """Where the thread stands now."""
        frame = None if self._thread.ident is None else sys._current_frames().get(self._thread.ident)  # noqa: SLF001 - documented
        return "" if frame is None else "".join(traceback.format_stack(frame))

    def _work(self, work: Callable[[], T]) -> None:
        try:
            result = work()
        except BaseException as caught:  # noqa: BLE001 - handed to the task that waits
            error = _carried(caught)
            self._deliver(lambda: self.ending.set_exception(error))
        else:
            self._deliver(lambda: self.ending.set_result(result))

    def _deliver(self, give: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(give)


async def call_in_thread(run: Run, work: Callable[[], Returned | Raised], timeout_seconds: float) -> Returned | Raised:
    """Do contained work in a thread, for at most `timeout_seconds` before it is told to end."""
    thread = ThreadRun(f"run:{run.job.lease.job_id}", work)
    return await await_ending(run, thread, thread.ending, thread.stack, timeout_seconds)


def contain(run: Run, arguments: dict[str, Any]) -> Returned | Raised:
    """Call a plain function; whatever it raises is this run's failure and nobody else's. A run that was told to end meanwhile never begins."""
    if run.cause is not None:
        return Raised(asyncio.CancelledError())
    try:
        value = run.handler.function(run.argument, **arguments)
    except BaseException as error:  # noqa: BLE001 - even SystemExit is only this job's failure; it is judged by the caller
        return Raised(run.flow_end or error)
    return Raised(run.flow_end) if run.flow_end else returned(run.handler.result_of_one(value))


def _carried(error: BaseException) -> BaseException:
    """A future refuses `StopIteration`; everything else travels as it is."""
    if isinstance(error, StopIteration):
        carried = RuntimeError("StopIteration left a thread")
        carried.__cause__ = error
        return carried
    return error
