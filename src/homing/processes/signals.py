"""Being told to stop: the first signal asks, the second one does not wait. Correct as PID 1 too."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

log = logging.getLogger("homing.process")

HARD_STOP = 75
"""Exit code of a stop that left runs behind; they are run again elsewhere."""

STUCK = 76
"""Exit code of a process whose loops did not turn any more; its jobs are run again elsewhere."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

ORDER_TO_STOP = b"stop\n"
ORDER_TO_STOP_SOON = b"stop soon\n"
"""What a supervised process reads from stdin: let runs finish for the whole grace, or for a moment alone."""

SOON_SECONDS = 1.0
"""How long runs may finish after an order to stop soon; those that have not are given back as at the end of any grace."""


class StopAsked(Exception):  # noqa: N818 - no error: it ends a start
    """The stop was asked for before the process had started."""


class StopSignal:
    """Set by SIGTERM or SIGINT. A second signal ends the process at once, with 143 or 130 as a shell would report it.

    The second one is obeyed even while a handler blocks the event loop: it is the interpreter that calls us, not the loop. `on_asked` is
    called in the event loop, once the stop is asked for.
    """

    def __init__(self, on_asked: Callable[[], None] = lambda: None) -> None:
        self._asked = asyncio.Event()
        self._on_asked = on_asked
        self._starting: asyncio.Task[object] | None = None
        self._signalled = False
        self._soon = False
        self._loop = asyncio.get_running_loop()

    def listen(self) -> None:
        """Take over SIGTERM and SIGINT; only the main thread may."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)

    def listen_to_supervisor(self) -> None:
        """Take orders from the pipe at stdin instead: a line asks for the stop, and so does its end, when the supervisor is gone.

        Signals are meant for the supervisor: a terminal and some service managers send them to every process, and one that came here
        besides the supervisor's order would count as the second. They were blocked when this process was started.
        """
        orders = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # so that no program that a handler starts can read an order
        os.close(nothing)
        for number in STOP_SIGNALS:
            signal.signal(number, _ignore)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        threading.Thread(target=self._take_orders, args=(orders,), name="homing-orders", daemon=True).start()

    @contextmanager
    def ends_a_start(self) -> Iterator[None]:
        """A stop that is asked for inside the block cancels what its task waits for, be it for ever; `StopAsked` is raised behind it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a start is a coroutine's
        self._starting = task
        try:
            yield
        except asyncio.CancelledError:
            if not self._asked.is_set():
                raise
        finally:
            self._starting = None
            if self._asked.is_set():
                task.uncancel()
        if self._asked.is_set():
            raise StopAsked

    async def wait(self) -> None:
        """Return once a stop was asked for."""
        await self._asked.wait()

    def grace_seconds(self, usual_seconds: float) -> float:
        """How long runs may finish, as the stop was asked for."""
        return min(usual_seconds, SOON_SECONDS) if self._soon else usual_seconds

    def _take_orders(self, orders: int) -> None:
        order = os.read(orders, 64)
        self._soon = order == ORDER_TO_STOP_SOON
        self._begin_from_outside("the supervisor" if order else "the supervisor is gone")

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._signalled:
            _leave_now(number)
        self._signalled = True
        self._begin_from_outside(signal.Signals(number).name)

    def _begin_from_outside(self, name: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin, name)

    def _begin(self, name: str) -> None:
        log.info("%s: stopping", name)
        self._asked.set()
        self._on_asked()
        if self._starting is not None:
            self._starting.cancel()


@contextmanager
def woken_by_signals(on_stop: Callable[[int], None]) -> Iterator[int]:
    """Take over the stop signals and SIGCHLD inside the block; the pipe that is readable after one came. Only the main thread may."""
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        os.set_blocking(end, False)

    def on_signal(number: int, _: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            on_stop(number)

    before = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, on_signal) for number in (*STOP_SIGNALS, signal.SIGCHLD)}
    try:
        yield ours
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(ours)
        os.close(theirs)


def leave_runs_behind() -> NoReturn:
    """End the process although handlers still run: they ignored being cancelled, and would keep it for ever."""
    log.error("leaving with runs that did not end; their jobs are run again elsewhere")
    leave(HARD_STOP)


def leave_stuck() -> NoReturn:
    """End the process although it was not asked to: it could neither work nor stop in good order."""
    log.error("leaving a process that does not work any more; its jobs are run again elsewhere")
    leave(STUCK)


def hard_end(seconds: float) -> threading.Timer:
    """A timer that, `seconds` after it was started, ends the process whatever its stop waits for: later, the orchestrator would kill it."""

    def leave() -> None:
        log.error("the stop has taken longer than %g s", seconds)
        leave_runs_behind()

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    return timer


def _ignore(number: int, _: FrameType | None) -> None:
    """A function, and not SIG_IGN, which the programs that handlers start would inherit."""
    log.info("%s is the supervisor's to obey: it is process %d", signal.Signals(number).name, os.getppid())


def _leave_now(number: int) -> NoReturn:
    try:
        name = signal.Signals(number).name
        log.error("%s again: stopping now, running jobs are left to other workers", name)
    finally:  # whatever line of the program this interrupted, and whatever it held
        leave(128 + number)


def leave(code: int) -> NoReturn:
    """End the process now, whatever still runs in it; what was said is written."""
    try:
        logging.shutdown()
        sys.stdout.flush()
    finally:
        os._exit(code)
