"""Starting, watching and signalling server processes without ever trusting a process id alone.

A server inherits the descriptor of a locked file and never closes it. The kernel drops that lock when the last
process of the server is gone: after kill -9 too, at once for a zombie, and whatever its number is given to later.
"""

import fcntl
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from homing.embedded.identity import Account
from homing.errors import ServerUnavailable

POLL_SECONDS = 0.01


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, waiting_for: str) -> None:
    """Poll until the condition holds; raise `ServerUnavailable` that says what was waited for."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerUnavailable(f"Waited {timeout_seconds:g} s for {waiting_for}, in vain.")
        time.sleep(POLL_SECONDS)


@contextmanager
def exclusive_lock(path: Path, *, timeout_seconds: float, waiting_for: str) -> Iterator[int]:
    """Hold the lock of this file and yield its descriptor; a child that inherits it holds on after us."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        wait_until(
            lambda: _try_lock(descriptor, fcntl.LOCK_EX), timeout_seconds=timeout_seconds, waiting_for=waiting_for
        )
        yield descriptor
    finally:
        os.close(descriptor)  # never LOCK_UN: that would take the lock from the child as well


def is_locked(path: Path) -> bool:
    """Tell whether anyone holds the lock of this file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def launch(
    command: Sequence[str], *, account: Account, log: Path, inherited_lock: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, so that Ctrl-C stays ours; it writes to `log` and keeps the lock."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*account.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=environment,
            start_new_session=True,
            pass_fds=(inherited_lock,),
            user=account.uid,
            group=account.gid,
            extra_groups=None if account.uid is None else [],
        )


def run_to_end(
    command: Sequence[str], *, account: Account, inherited_lock: int, environment: Mapping[str, str]
) -> None:
    """Run a tool that keeps the lock while it works, even beyond our death; raise `ServerUnavailable` with its words."""
    with tempfile.NamedTemporaryFile() as words:  # a file, not a pipe: whatever it starts could keep a pipe open
        tool = launch(
            command, account=account, log=Path(words.name), inherited_lock=inherited_lock, environment=environment
        )
        if status := tool.wait():
            said = Path(words.name).read_text(errors="replace")[-2000:]
            raise ServerUnavailable(f"{Path(command[0]).name} ended with status {status}: {said}")


def reap_in_background(process: subprocess.Popen[bytes]) -> None:
    """Let a thread collect the exit status whenever it comes: the server may outlive the object that started it."""
    threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()


def clean_environment() -> dict[str, str]:
    """Return our environment without what would redirect libpq or PostgreSQL (PGDATA, PGPORT, PGOPTIONS …)."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def program_of(pid: int) -> str | None:
    """Return the name of the program that runs under this number, or None if it is gone or a zombie."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").partition("(")[2].rpartition(")")
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _program_by_ps(pid)
    except ProcessLookupError:
        return None
    return None if rest.split()[0] in "ZX" else name


def _program_by_ps(pid: int) -> str | None:
    listed = subprocess.run(  # macOS has no /proc
        ["/bin/ps", "-o", "state=,comm=", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, command = listed.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else Path(command.strip()).name
