"""The worker's side of one child: started anew, never forked, spoken to over a socket, killed with all that it started."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

from homing.app.handlers import Told
from homing.config.settings import Settings
from homing.worker.children.failures import ChildDied
from homing.worker.children.frames import Frame, pack, read
from homing.worker.children.hosting import LEAVING_SECONDS

log = logging.getLogger("homing.worker")

LOOK_SECONDS = 0.25
"""How often a busy child is looked at: what it forked may hold its socket open after its death."""

DRAINING_SECONDS = 1.0
"""How long the last words of a child that has ended are waited for."""

KILLING_SECONDS = 5.0
"""How long a killed process may take to be gone; the kernel holds one that waits for a disk."""


class ChildProcess:
    """One child. `jobs`: how many runs it has ended."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._killed = False
        self.jobs = 0

    @classmethod
    async def start(cls, module: str, settings: Settings) -> "ChildProcess":
        """Start `python -m module`; what it says later shows whether it can work. Raises `ChildDied` when it cannot be started."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: ASYNC220 - some milliseconds, and the kernel ties its life to this very thread
                    [sys.executable, "-m", module], stdin=theirs.fileno(), start_new_session=True
                )
            except OSError as error:
                ours.close()
                raise ChildDied(f"no child process could be started: {error}") from error
        reader, writer = await asyncio.open_connection(sock=ours)
        child = cls(process, reader, writer)
        level = logging.getLevelName(logging.getLogger().getEffectiveLevel())
        child.send({"sys_path": sys.path, "log_level": level, "log_format": settings.log_format})
        return child

    @property
    def pid(self) -> int:
        """Its process id, and that of the group that it leads."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, frame: Frame) -> None:
        """Give it something to do; one that is dead is noticed by `receive`."""
        self._writer.write(pack(frame))

    async def receive(self) -> Frame:
        """What it says next; raises `ChildDied` when it ends instead. Who gives up waiting has to `kill` it."""
        reading = asyncio.ensure_future(read(self._reader))
        try:
            while not reading.done() and self.alive:
                await asyncio.wait({reading}, timeout=LOOK_SECONDS)
            async with asyncio.timeout(DRAINING_SECONDS):
                return await reading
        except (EOFError, OSError, ValueError) as error:  # TimeoutError is one of the second kind
            raise await self._death() from error
        finally:
            reading.cancel()

    async def receive_answer(self, tell: Callable[[Told, str], None]) -> Frame:
        """What it says next that is no note of its run; notes are passed on as they come."""
        while "note" in (said := await self.receive()):
            tell(*said["note"])
        return said

    def kill(self) -> None:
        """End it and all that it started, now. Once only, and no later than right after its end: ids are used again."""
        if not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left; or, on macOS, only zombies
                os.killpg(self.pid, signal.SIGKILL)

    async def leave(self) -> None:
        """Let it end by itself, for a moment; then it is killed. It must have nothing to do."""
        self._writer.close()
        await self._gone(LEAVING_SECONDS)
        self.kill()
        await self.reap()

    async def reap(self) -> None:
        """Wait for the end of one that was killed."""
        self._writer.transport.abort()
        if not await self._gone(KILLING_SECONDS):
            log.error("child process %d is killed and not gone after %g s", self.pid, KILLING_SECONDS)

    async def _gone(self, seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.alive and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - no event tells of a process's end on every system
            await asyncio.sleep(0.01)
        return not self.alive

    async def _death(self) -> ChildDied:
        """How it ended. One that only closed its connection is of no use any more."""
        ended = await self._gone(DRAINING_SECONDS)
        self.kill()
        if not ended:
            return ChildDied("the child process that ran it closed its connection to the worker")
        code = self._process.returncode
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return ChildDied(f"the child process that ran it {how}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
