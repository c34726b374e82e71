"""A program of its own: waits for the end of one process, then stops the server that was left behind.

Started by path with `-I -S`, so that it stays small: it may import nothing but the standard library.
Arguments: the process to watch, the server's lock file, its pid file, the signal to send.
"""

import contextlib
import fcntl
import os
import select
import sys
import time
from pathlib import Path

LOOK_SECONDS = 1.0
ATTEMPTS = 30


def wait_for_end(parent: int) -> bool:
    """Return True when the watched process is gone, False when it dismissed us.

    The end of the pipe tells at once. A forked child may keep the pipe open: then our new parent tells.
    """
    while True:
        readable, _, _ = select.select([0], [], [], LOOK_SECONDS)
        if readable:
            return os.read(0, 1) == b""
        if os.getppid() != parent:
            return True


def lives(lock: Path) -> bool:
    """Tell whether the server holds its lock."""
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def main(parent: str, lock: str, pid_file: str, signal_number: str) -> None:
    """Wait, then signal until the server is gone or half a minute has passed."""
    if not wait_for_end(int(parent)):
        return
    for _ in range(ATTEMPTS):
        if not lives(Path(lock)):
            return
        with contextlib.suppress(OSError, ValueError, IndexError):  # a server that just starts has no number yet: again
            os.kill(int(Path(pid_file).read_text().split()[0]), int(signal_number))
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
