"""A worker that stops while claims are on their way: what was claimed is run, what was not stays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from homing import Event, Homing, Provider
from homing.config.settings import Settings
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest, Finished, Idle
from homing.queue.redis import RedisEngine
from homing.worker import Worker
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "work"


class Asked(Event, topic="stop.asked", unrouted=True):
    number: int = 0


class SlowAnswers(RedisEngine):
    """An engine whose answers to a claim arrive late, in one of its two forms: the job is leased before the worker hears of it."""

    def __init__(self, settings: Settings, late: str) -> None:
        super().__init__(settings.redis_dsn, prefix=settings.prefix or "")
        self._late = late
        self.leased = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def claim(self, queue: str, request: ClaimRequest) -> ClaimedJob | Idle:
        answer = await super().claim(queue, request)
        if self._late == "claim" and isinstance(answer, ClaimedJob):
            await self._hold_back()
        return answer

    async def complete(
        self, job: ClaimedJob, result: str, *, mark: str | None, keep: KeepRule, claim_next: ClaimRequest | None
    ) -> Finished:
        answer = await super().complete(job, result, mark=mark, keep=keep, claim_next=claim_next)
        if self._late == "finish" and isinstance(answer.next, ClaimedJob):
            await self._hold_back()
        return answer

    async def _hold_back(self) -> None:
        self.leased.set()
        await self.may_answer.wait()


@pytest.mark.parametrize("late", ["claim", "finish"])
async def test_job_claimed_in_the_race_with_a_stop_is_run(settings: Settings, late: str) -> None:
    """A job that was leased just before the stop, by a claim or by the finish of another job, is not left to its lease."""
    app = Homing("test")
    seen: list[int] = []

    @app.queue(QUEUE, concurrency=1).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        seen.append(event.number)

    engine = SlowAnswers(settings, late)
    async with running(app, quick(settings), worker=False, engine=engine) as system:
        await system.record(Asked(number=1), Asked(number=2), Asked(number=3))

        async def all_wait() -> bool:
            return (await engine.counts(QUEUE)).waiting == 3

        await until(all_wait, what="the jobs wait")
        async with with_worker(system) as worker:
            await asyncio.wait_for(engine.leased.wait(), 10)
            stopping = asyncio.create_task(worker.stop(5))
            await until(lambda: not any(lane.open for lane in worker._lanes), what="the lanes are closed")
            engine.may_answer.set()
            assert await stopping is True
            counts = await engine.counts(QUEUE)
            assert counts.active == 0
            assert len(seen) == counts.completed == (1 if late == "claim" else 2)
            assert counts.waiting == 3 - len(seen)


async def test_idle_worker_stops_at_once(settings: Settings) -> None:
    """A worker that waits for jobs is woken by the stop and ends without waiting for anything."""
    app = Homing("test")

    @app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None: ...

    async with running(app, quick(settings)) as system:
        await system.record(Asked())
        await system.settled()
        assert system.worker is not None
        async with asyncio.timeout(60):
            assert await system.worker.stop(600) is True


@asynccontextmanager
async def with_worker(system: System) -> AsyncIterator[Worker]:
    """A worker on the system's own ledger and engine; the test stops it."""
    worker = Worker(system.app, system.settings, ledger=system.ledger, engine=system.engine, provider=Provider())
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(0)
