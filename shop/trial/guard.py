"""Ends the processes of a trial when the trial itself cannot: after kill -9, or when a terminal is torn away.

A process of its own that reads, line by line, which processes live and which have ended; when its input ends without a farewell,
it kills those that are left.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO


class Guard:
    """Our side of the pipe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shop.trial.guard"], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def watch(self, pid: int) -> None:
        """This one must not outlive us."""
        self._say(f"+{pid}")

    def forget(self, pid: int) -> None:
        """This one has ended and was waited for: its number may mean another process from now on."""
        self._say(f"-{pid}")

    def dismiss(self) -> None:
        """End the guard; everybody is safe."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def stand_guard(lines: IO[str]) -> None:
    """Follow the lines to their end, then kill what is left."""
    living: set[int] = set()
    for line in lines:
        pid = int(line[1:])
        if line.startswith("+"):
            living.add(pid)
        else:
            living.discard(pid)
    for pid in living:
        with suppress(ProcessLookupError):  # it was faster
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    stand_guard(sys.stdin)
