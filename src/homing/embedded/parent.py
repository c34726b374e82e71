"""Tie a server's life to this process: a watcher sees our end, whatever caused it."""

import os
import subprocess
import sys
from pathlib import Path
from signal import Signals

WATCHER = Path(__file__).with_name("watcher.py")

# Kept here, by the server's lock file, because the end of a watcher's pipe means our end: it must not be closed when
# somebody merely drops the object of a server.
_watchers: dict[Path, subprocess.Popen[bytes]] = {}


def watch(*, server_lock: Path, pid_file: Path, signal: Signals) -> int:
    """Make sure that one watcher process waits for our end; returns its process id."""
    if server_lock not in _watchers:
        _watchers[server_lock] = subprocess.Popen(
            [sys.executable, "-I", "-S", WATCHER, str(os.getpid()), server_lock, pid_file, str(int(signal))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    return _watchers[server_lock].pid


def dismiss(server_lock: Path) -> None:
    """End the watcher of this server, if we have one, without touching the server."""
    watcher = _watchers.pop(server_lock, None)
    if watcher is not None:
        watcher.communicate(b"x")
