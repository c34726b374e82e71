"""The processes of a trial: each with a log of its own, each ended by its own pid."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import shop
from homing.errors import ServerUnavailable
from shop.trial.guard import Guard

ROOT = Path(shop.__file__ or ".").resolve().parents[1]
START_SECONDS = 60.0
STOP_SECONDS = 15.0
PAUSE_SECONDS = 0.05

HOMING = str(Path(sys.executable).with_name("homing"))


@dataclass(frozen=True)
class Child:
    """A process that was started; its standard error is `log`. One that serves HTTP writes its address to `ready_file`."""

    name: str
    log: Path
    process: "subprocess.Popen[bytes]"
    guard: Guard
    ready_file: Path | None = None

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def address(self) -> str | None:
        """The URL in its ready file; none until it answers, and for one that serves nothing."""
        if self.ready_file is None or not self.ready_file.exists():
            return None
        return str(json.loads(self.ready_file.read_text(encoding="utf-8"))["url"])

    def kill(self) -> None:
        """End it as a crash would."""
        if self.running:
            self.process.kill()
        self.wait()

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for its end and return its status; `TimeoutExpired` when it takes longer."""
        status = self.process.wait(timeout_seconds)
        self.guard.forget(self.process.pid)
        return status

    def ask_to_stop(self) -> None:
        """Send SIGTERM; see `stop_all` for what follows."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)

    async def until_it_says(self, message: str) -> str:
        """Wait until a JSON line of its log has a message that begins with `message`, and return it; raise if it ends before that."""
        with self.log.open("rb") as lines:
            deadline = asyncio.get_running_loop().time() + START_SECONDS
            while (said := _line_that_says(lines, message)) is None:
                self._check(deadline)
                await asyncio.sleep(PAUSE_SECONDS)
        return said

    async def until_it_answers(self) -> str:
        """Return its address; raise if it ends before it has one."""
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while (url := self.address) is None:
            self._check(deadline)
            await asyncio.sleep(PAUSE_SECONDS)
        return url

    def _check(self, deadline: float) -> None:
        if not self.running or asyncio.get_running_loop().time() > deadline:
            end = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise ServerUnavailable(
                f"{self.name} did not start (status {self.process.poll()}); end of {self.log}:\n{end}"
            )


def start(
    name: str,
    command: list[str],
    environment: Mapping[str, str],
    logs: Path,
    guard: Guard,
    *,
    ready_file: Path | None = None,
) -> Child:
    """Start a process in a session of its own: Ctrl-C reaches us, and we decide when it ends."""
    log = logs / f"{name}.log"
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )
    guard.watch(process.pid)
    return Child(name, log, process, guard, ready_file)


async def run(name: str, command: list[str], environment: Mapping[str, str], logs: Path, guard: Guard) -> None:
    """Run a process to its end; raise with the end of its log when it fails."""
    child = start(name, command, environment, logs, guard)
    try:
        status = await asyncio.to_thread(child.wait, START_SECONDS)
    finally:
        child.kill()
    if status != 0:
        raise ServerUnavailable(f"{name} failed with status {status}:\n{child.log.read_text(encoding='utf-8')[-2000:]}")


def stop_all(children: list[Child]) -> None:
    """Ask all of them to stop, and end those that do not within 15 seconds."""
    for child in children:
        child.ask_to_stop()
    for child in children:
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()


def _line_that_says(lines: IO[bytes], message: str) -> str | None:
    while True:
        start = lines.tell()
        line = lines.readline()
        if not line.endswith(b"\n"):
            lines.seek(start)  # nothing yet, or half a line
            return None
        said = str(read_line(line).get("message", ""))
        if said.startswith(message):
            return said


def read_line(line: bytes) -> dict[str, object]:
    """A JSON log line; empty for one that is none, such as the last words of a killed process."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
