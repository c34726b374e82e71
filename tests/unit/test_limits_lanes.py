"""Limited lanes: they wait for the time of the next permit, hear nothing until then, and hold up no other lane."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from homing.clock import SystemClock
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.memory import MemoryEngine
from homing.queue.port import ClaimRequest, Idle, Limit
from homing.worker import lanes as module
from homing.worker.lanes import Claimer, Lane
from homing.worker.slot import Owner
from tests.contract.conftest import job
from tests.waiting import until

FEW, FREE = "few", "free"


@pytest.fixture(autouse=True)
def _no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that resumes has been woken by the time that it was told."""
    monkeypatch.setattr(module, "POLL_SECONDS", 600.0)


class WatchedEngine(MemoryEngine):
    """Counts claims, and notes which queues were waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: Counter[str] = Counter()
        self.waits: list[frozenset[str]] = []
        self.done: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def claim(self, queue: str, request: ClaimRequest) -> ClaimedJob | Idle:
        self.claims[queue] += 1
        return await super().claim(queue, request)

    async def wait(self, queues: Sequence[str], timeout_seconds: float) -> str | None:
        self.waits.append(frozenset(queues))
        return await super().wait(queues, timeout_seconds)

    def has_done(self, job_id: str) -> bool:
        return job_id in self.done

    def begin(self, jobs: Sequence[ClaimedJob], owner: Owner) -> None:
        for claimed in jobs:
            self.tasks.append(asyncio.create_task(self.execute(claimed, owner)))

    async def execute(self, claimed: ClaimedJob, owner: Owner) -> None:
        self.done.append(claimed.lease.job_id)
        owner.returned(1)
        wanted = owner.ask(1)
        request = None if wanted is None else wanted.request
        finished = await self.complete(claimed, "null", mark=None, keep=KeepRule(), claim_next=request)
        owner.heard(wanted)
        owner.left([finished], wanted=wanted)


@asynccontextmanager
async def claiming(engine: WatchedEngine, **limits: Limit | None) -> AsyncIterator[list[Lane]]:
    """Lanes of these queues, kept filled."""
    lanes = [
        Lane(
            queue,
            concurrency=4,
            limit=limit,
            engine=engine,
            begin=engine.begin,
            lease_seconds=30.0,
            worker="w",
            clock=SystemClock(),
            on_change=lambda: claimer.notice(),  # noqa: PLW0108 - the claimer is made after the lanes
        )
        for queue, limit in limits.items()
    ]
    claimer = Claimer(lanes, engine, SystemClock())

    async def turn() -> None:
        while True:
            await claimer.tick()

    task = asyncio.create_task(turn())
    try:
        yield lanes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_limited_lane_neither_claims_nor_listens_until_its_permit() -> None:
    """However many jobs come, a lane without a permit asks for nothing, and the other lane runs all of its own."""
    engine = WatchedEngine()
    await engine.add(FEW, [job(f"few-{n}") for n in range(2)])
    async with claiming(engine, few=Limit(1, 600.0), free=None) as lanes:
        await until(lambda: engine.done == ["few-0"])
        await until(lambda: not lanes[0].listening() and not lanes[0].running)
        engine.waits.clear()
        claims = engine.claims[FEW]
        for round_ in range(50):
            await engine.add(FEW, [job(f"more-{round_}")])
            await engine.add(FREE, [job(f"free-{round_}")])
            await until(partial(engine.has_done, f"free-{round_}"))
        assert engine.claims[FEW] - claims <= 1
        assert engine.waits[1:]
        assert all(waited == {FREE} for waited in engine.waits[1:])
        assert engine.done.count("few-0") == 1
        assert len(engine.done) == 51


async def test_a_lane_resumes_at_its_permit() -> None:
    """The wait ends with the window, not with the poll: nine jobs at three in 0.2 s take 0.4 s."""
    engine = WatchedEngine()
    await engine.add(FEW, [job(f"few-{n}") for n in range(9)])
    started = time.monotonic()
    async with claiming(engine, few=Limit(3, 0.2)):
        await until(lambda: len(engine.done) == 9)
    assert time.monotonic() - started >= 0.4
    assert engine.claims[FEW] <= 30


async def test_a_pause_from_outside_ends_at_its_time() -> None:
    """A lane without a limit that meets a paused queue resumes when the pause is over."""
    engine = WatchedEngine()
    started = time.monotonic()
    await engine.throttle(FREE, 0.3, None)
    async with claiming(engine, free=None):
        await engine.add(FREE, [job("a")])
        await until(lambda: engine.done == ["a"])
    assert time.monotonic() - started >= 0.3
