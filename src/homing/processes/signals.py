"""Being told to stop: the first signal asks, the second one does not wait. Correct as PID 1 too."""

import asyncio
import logging
import os
import signal
from types import FrameType
from typing import NoReturn

log = logging.getLogger("homing.process")

HARD_STOP = 75
"""Exit code of a stop that left runs behind; they are run again elsewhere."""


class StopSignal:
    """Set by SIGTERM or SIGINT. A second signal ends the process at once, with 143 or 130 as a shell would report it.

    The second one is obeyed even while a handler blocks the event loop: it is the interpreter that calls us, not the loop.
    """

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._signalled = False
        self._loop = asyncio.get_running_loop()

    def listen(self) -> None:
        """Take over SIGTERM and SIGINT; only the main thread may."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def ask(self) -> None:
        """Ask for a stop from inside the process."""
        self._asked.set()

    async def wait(self) -> None:
        """Return once a stop was asked for."""
        await self._asked.wait()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._signalled:
            _leave_now(number)
        self._signalled = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin, signal.Signals(number).name)

    def _begin(self, name: str) -> None:
        log.info("%s: stopping", name)
        self._asked.set()


def leave_runs_behind() -> NoReturn:
    """End the process although handlers still run: they ignored being cancelled, and would keep it for ever."""
    log.error("leaving with runs that did not end; their jobs are run again elsewhere")
    logging.shutdown()
    os._exit(HARD_STOP)


def _leave_now(number: int) -> NoReturn:
    try:
        name = signal.Signals(number).name
        log.error("%s again: stopping now, running jobs are left to other workers", name)
        logging.shutdown()
    finally:  # whatever line of the program this interrupted, and whatever it held
        os._exit(128 + number)
