"""Enqueueing directly: jobs that no transaction waits for, as durable as Redis."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar
from weakref import WeakKeyDictionary

from homing.client.ends import Ends
from homing.client.engines import ANSWER_SECONDS, DirectEngine
from homing.errors import EnqueueError, ServerUnavailable
from homing.ids import JobId
from homing.queue.flows import FlowJob
from homing.queue.job import NewJob
from homing.queue.port import Accepted, AddResult, Deduplicated, Refused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Added:
    """The job that is in the queue now: the one that was to be added, or the one that stands for it."""

    id: JobId
    since_ms: int
    deduplicated: bool = False


class Client:
    """An engine and those who wait for ends, of one event loop."""

    def __init__(self, make: Callable[[], DirectEngine]) -> None:
        self._make = make
        self._ends: dict[str, Ends] = {}
        self._knows_time = False

    @cached_property
    def engine(self) -> DirectEngine:
        """The engine; needs settings that name its server."""
        return self._make()

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[Added]:
        """Add jobs that were made as of `now_ms`; `ServerUnavailable` within two seconds when Redis does not take them."""
        again = f"id={str(jobs[0].id)!r}" if len(jobs) == 1 else "the same ids"
        return await self.ask(self._add(queue, jobs), f"to be sure that it is there, enqueue again with {again}")

    async def add_flow(self, root: JobId, tree: Callable[[int], Sequence[FlowJob]]) -> int:
        """Add a tree of jobs as of now, by the engine's clock in ms, which is returned; as `add` otherwise."""
        answer = self._add_flow(tree)
        return await self.ask(answer, f"to be sure that it is there, enqueue again with id={str(root)!r}")

    async def ask(self, answer: Awaitable[T], otherwise: str) -> T:
        """The engine's answer, or a `ServerUnavailable` within two seconds, which says `otherwise` too.

        Once it is connected, a server that is silent for that long loses the connection, which needs no timer of ours.
        """
        try:
            if self.engine.is_connected:
                return await answer
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError as error:
            raise ServerUnavailable(f"Redis has not answered within {ANSWER_SECONDS:g} s; {otherwise}") from error
        except ServerUnavailable as error:
            raise ServerUnavailable(f"{error}; {otherwise}") from error

    async def _add_flow(self, tree: Callable[[int], Sequence[FlowJob]]) -> int:
        now_ms = await self._now_ms()
        jobs = tree(now_ms)
        for one, answer in zip(jobs, await self.engine.add_flow(jobs), strict=True):
            _added(one.job, answer)
        return now_ms

    async def _now_ms(self) -> int:
        """Delays are counted by the engine's clock, which is read when it is opened."""
        if not self._knows_time:
            await self.engine.open()
            self._knows_time = True
        return self.engine.now_ms

    async def _add(self, queue: str, jobs: Sequence[NewJob]) -> list[Added]:
        if not self._knows_time:  # they were made without a time
            now_ms = await self._now_ms()
            jobs = [replace(job, timestamp_ms=now_ms) for job in jobs]
        answers = await self.engine.add(queue, jobs)
        return [_added(job, answer) for job, answer in zip(jobs, answers, strict=True)]

    @property
    def now_ms(self) -> int:
        """The engine's time; 0 before it was asked."""
        return self.engine.now_ms if self._knows_time else 0

    def ends(self, queue: str) -> Ends:
        """Those who wait for ends in a queue."""
        found = self._ends.get(queue)
        if found is None:
            found = self._ends[queue] = Ends(self.engine, queue)
        return found

    async def close(self) -> None:
        """Close every connection; who still waits hears so."""
        await asyncio.gather(*(ends.close() for ends in self._ends.values()))
        if "engine" in self.__dict__:
            await self.engine.close()


class Clients:
    """The clients of one app, by event loop: made when first asked for."""

    def __init__(self, make: Callable[[], DirectEngine]) -> None:
        self._make = make
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def current(self) -> Client:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        client = self._by_loop.get(loop)
        if client is None:
            client = self._by_loop[loop] = Client(self._make)
        return client

    async def close(self) -> None:
        """Close that of the running event loop; the next use makes another one."""
        client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


def _added(job: NewJob, answer: AddResult) -> Added:
    match answer:
        case Accepted():
            return Added(job.id, job.timestamp_ms)
        case Deduplicated(standing=standing):
            return Added(standing, job.timestamp_ms, deduplicated=True)
        case Refused(for_good=True, error=error):
            raise EnqueueError(error)
        case Refused(error=error):
            raise ServerUnavailable(error)
