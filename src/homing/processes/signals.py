"""Being told to stop: the first signal asks, the second one does not wait. Correct as PID 1 too."""

import asyncio
import logging
import os
import signal

log = logging.getLogger("homing.process")

HARD_STOP = 75
"""Exit code of a stop that left runs behind; they are run again elsewhere."""


class StopSignal:
    """Set by SIGTERM or SIGINT. A second signal ends the process at once, with 143 or 130 as a shell would report it."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def listen(self) -> None:
        """Take over SIGTERM and SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_signal, number)

    def ask(self) -> None:
        """Ask for a stop from inside the process."""
        self._asked.set()

    async def wait(self) -> None:
        """Return once a stop was asked for."""
        await self._asked.wait()

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._asked.is_set():
            log.error("%s again: stopping now, running jobs are left to other workers", name)
            logging.shutdown()
            os._exit(128 + number)
        log.info("%s: stopping", name)
        self._asked.set()
