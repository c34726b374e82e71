"""Children for `cpu=True` handlers: started when they are needed, used again, replaced when they die or grow."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from typing import Any

from homing.config.logs import log_context
from homing.config.settings import Settings
from homing.errors import RetryLater
from homing.worker.children.failures import ChildDied, rebuild
from homing.worker.children.frames import Frame
from homing.worker.children.names import name_of
from homing.worker.children.process import ChildProcess
from homing.worker.endings import Raised, Returned, await_ending
from homing.worker.run import Run

log = logging.getLogger("homing.worker")

CHILD = "homing.worker.children.child"

START_SECONDS = 60.0
"""How long a child may take to start and to import the handler's module."""

AGAIN_SECONDS = 5.0
"""How long a job waits when no child could take it; no attempt is spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recycling:
    """When a child is replaced, between two jobs. `max_jobs`: runs; `max_rss_mb`: MiB of memory that it holds after a run."""

    max_jobs: int = 1_000
    max_rss_mb: float = 512.0


class Children:
    """One child for each run at a time; a run that is told to end is ended by killing its child. `deaths`: those that nobody asked for."""

    def __init__(self, settings: Settings, recycling: Recycling | None = None) -> None:
        self._settings = settings
        self._recycling = recycling or Recycling()
        self._idle: list[ChildProcess] = []
        self._working: set[ChildProcess] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False
        self.deaths = 0

    async def call(self, run: Run, timeout_seconds: float) -> Returned | Raised:
        """Run the handler in a child, for at most `timeout_seconds` from when the child begins; a dead child is a transient failure."""
        request = request_of(run)
        try:
            child = await self._begin(request)
        except _CannotBegin as error:
            log.error("no child process can run %s: %s", run.handler.location, error)  # noqa: TRY400 - the child's stack, not ours, would help
            return Raised(RetryLater(AGAIN_SECONDS, f"no child process can run it: {error}"))
        task = asyncio.create_task(self._answer(run, child), name=f"run:{run.job.lease.job_id}")
        try:
            return await await_ending(run, task, task, lambda: "", timeout_seconds)
        finally:
            task.cancel()
            if child in self._working:
                self._discard(child)

    async def close(self) -> None:
        """End every child: idle ones leave, what still runs is killed."""
        self._closed = True
        while self._idle:
            self._dismiss(self._idle.pop())
        for child in self._working:
            child.kill()
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    @property
    def pids(self) -> list[int]:
        """The children that there are, working or idle."""
        return sorted(child.pid for child in (*self._working, *self._idle))

    async def _begin(self, request: Frame) -> ChildProcess:
        """A child that has begun with the request. One that died while it was idle is nobody's fault: the next one is asked."""
        while True:
            child, used = await self._take()
            try:
                async with asyncio.timeout(START_SECONDS):
                    child.send(request)
                    said = await child.receive()
            except (ChildDied, TimeoutError) as error:
                self._discard(child)
                if used:
                    continue
                raise _CannotBegin(str(error) or f"it did not begin within {START_SECONDS:g} s") from error
            except BaseException:
                self._discard(child)
                raise
            if "broken" in said:
                self._put_back(child, said)
                raise _CannotBegin(rebuild(said["broken"]).report.summary)
            return child

    async def _take(self) -> tuple[ChildProcess, bool]:
        """A child, and whether it has worked before."""
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                self._working.add(child)
                return child, True
            log.warning("idle child process %d has ended, and is replaced", child.pid)
            self._discard(child)
        if self._closed:
            raise _CannotBegin("the worker stops")
        try:
            child = await ChildProcess.start(CHILD, self._settings)
        except ChildDied as error:
            raise _CannotBegin(str(error)) from error
        self._working.add(child)
        return child, False

    async def _answer(self, run: Run, child: ChildProcess) -> Returned | Raised:
        try:
            said = await child.receive_answer(run.tell)
        except ChildDied as died:
            self.deaths += 1
            return Raised(died)
        child.jobs += 1
        self._put_back(child, said)
        return Returned(said["returned"]) if "returned" in said else Raised(rebuild(said["raised"]))

    def _put_back(self, child: ChildProcess, said: Frame) -> None:
        self._working.discard(child)
        recycling = self._recycling
        if self._closed or child.jobs >= recycling.max_jobs:
            self._dismiss(child)
        elif said["rss_mb"] > recycling.max_rss_mb:
            log.info("child process %d holds %.0f MiB and is replaced", child.pid, said["rss_mb"])
            self._dismiss(child)
        else:
            self._idle.append(child)

    def _discard(self, child: ChildProcess) -> None:
        self._working.discard(child)
        child.kill()
        self._aside(child.reap())

    def _dismiss(self, child: ChildProcess) -> None:
        self._aside(child.leave())

    def _aside(self, ending: Coroutine[Any, Any, None]) -> None:
        """Runs need not wait for the end of a process."""
        task = asyncio.create_task(ending)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


class _CannotBegin(Exception):  # noqa: N818 - inside this module, it never leaves it
    """No child has begun the handler, so that no attempt is spent."""


def request_of(run: Run) -> Frame:
    """What a child needs for a run. The event is built there, from its payload, by its own class."""
    view = run.view
    return {
        "function": name_of(run.handler.function),
        "event": name_of(run.handler.event),
        "event_id": str(run.event_id),
        "version": run.envelope.version,
        "payload": run.envelope.payload,
        "job_parameters": [parameter.name for parameter in run.handler.parameters],
        "job": {
            "id": view.id,
            "queue": view.queue,
            "name": view.name,
            "consumer": view.consumer,
            "event_id": str(view.event_id),
            "trace_id": view.trace_id,
            "attempt": view.attempt,
            "attempts": view.attempts,
            "generation": view.generation,
            "recorded_at": view.recorded_at.isoformat(),
        },
        "trace": asdict(run.trace),
        "log": dict(log_context.get()),
    }
