"""Tie a server's life to this process: the watcher sees our end, whatever caused it."""

import os
import subprocess
import sys
from pathlib import Path
from signal import Signals

WATCHER = Path(__file__).with_name("watcher.py")


class Watch:
    """A running watcher process; `dismiss` ends it without touching the server."""

    def __init__(self, *, server_lock: Path, pid_file: Path, signal: Signals) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", WATCHER, str(os.getpid()), server_lock, pid_file, str(int(signal))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def dismiss(self) -> None:
        self._process.communicate(b"x")
