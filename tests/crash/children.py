"""Real workers and relays: started by their command, watched by their log, ended by their process id."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import until, wait_until

ROOT = Path(__file__).resolve().parents[2]
SHORT = {
    "HOMING_LEASE": "1500ms",
    "HOMING_BEAT": "300ms",
    "HOMING_RESCUE": "400ms",
    "HOMING_LOOK": "100ms",
    "HOMING_LOOK_GRACE": "0s",
    "HOMING_RELAY_POLL": "50ms",
    "HOMING_SHUTDOWN_GRACE": "10s",
    "HOMING_LOG_FORMAT": "json",
    "HOMING_HTTP_ADDRESS": "off",
}


class Child:
    """One `homing` process."""

    def __init__(
        self, app: str, arguments: list[str], environment: dict[str, str], log: Path, *, cwd: Path = ROOT
    ) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "homing", "--app", app, *arguments],
                cwd=cwd,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code, once it has ended; -9 after SIGKILL."""
        return self._process.poll()

    async def ready(self) -> None:
        """Wait until it works."""
        await self.says(" ready")

    async def says(self, words: str, timeout_seconds: float = 20) -> None:
        """Wait for words in its log, as long as it lives."""

        def said() -> bool:
            if words in self.log:
                return True
            assert self.code is None, f"ended with {self.code} before it said {words!r}:\n{self.log}"
            return False

        await until(said, timeout_seconds, f"the process says {words!r}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self._process.send_signal(number)

    async def ended(self, timeout_seconds: float = 20) -> int:
        """Wait for its end; the exit code."""
        await until(lambda: self.code is not None, timeout_seconds, f"process {self.pid} ends")
        assert self.code is not None
        return self.code

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.code is None:
            self._process.kill()
            wait_until(lambda: self.code is not None, what=f"process {self.pid} is gone")


WHOLE_APP, LEAST_APP = "tests.crash.app:app", "tests.crash.least_app:app"


class Children:
    """Starts processes of one app on one database, one engine and one prefix."""

    def __init__(self, database_url: str, redis_url: str, prefix: str, folder: Path, app: str = WHOLE_APP) -> None:
        self.app = app
        self._urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HOMING_PREFIX": prefix}
        self._folder = folder
        self.started: list[Child] = []

    def worker(self, *arguments: str, **changes: str) -> Child:
        """Start a worker, with its relay unless `--no-relay` is among the arguments."""
        return self._start(["worker", *arguments], changes)

    def relay(self, **changes: str) -> Child:
        """Start a relay."""
        return self._start(["relay"], changes)

    def _start(self, arguments: list[str], changes: dict[str, str]) -> Child:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
        log = self._folder / f"{arguments[0]}-{len(self.started)}.log"
        child = Child(self.app, arguments, environment | SHORT | self._urls | changes, log)
        self.started.append(child)
        return child


@contextmanager
def children(database_url: str, redis_url: str, prefix: str, folder: Path, app: str = WHOLE_APP) -> Iterator[Children]:
    """Every process that was started is gone at the end."""
    started = Children(database_url, redis_url, prefix, folder, app)
    try:
        yield started
    finally:
        for child in started.started:
            child.kill()
