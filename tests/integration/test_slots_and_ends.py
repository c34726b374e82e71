"""Slots are for handlers: jobs that wait for the ledger hold none, there are not more of them than was said, and one slot is one job at a time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.events.envelope import foreign_id
from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine
from homing.service import Loop
from homing.worker import lanes
from tests.system import running
from tests.waiting import until


class Pinged(Event, topic="slots.pinged", unrouted=True):
    number: int


class Pings:
    """Counts handlers at work, and in all."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.begun: list[int] = []

    def app(self, concurrency: int) -> Homing:
        """An app of one handler that takes a turn or two."""
        app = Homing("slots")

        @app.queue("mail", concurrency=concurrency).handler("ping", on=Pinged, at_least_once=True)
        async def ping(event: Pinged) -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            self.begun.append(event.number)
            await asyncio.sleep(0)
            self.now -= 1

        return app


def ping_job(number: int) -> NewJob:
    """A job of another producer."""
    data = json.dumps({"eventId": str(uuid4()), "payload": {"number": number}})
    return NewJob(id=JobId(f"ping-{number}"), name="ping", data=data, timestamp_ms=1)


@asynccontextmanager
async def filled(settings: Settings, jobs: int) -> AsyncIterator[RedisEngine]:
    """An engine with so many jobs."""
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    await engine.add("mail", [ping_job(number) for number in range(jobs)])
    yield engine
    await engine.close()


async def all_done(engine: RedisEngine, jobs: int) -> None:
    """Wait until all of them are completed."""

    async def is_done() -> bool:
        return (await engine.counts("mail")).completed == jobs

    await until(is_done, what="all jobs are completed")


@pytest.mark.parametrize(
    ("concurrency", "most_ending", "leased"),
    [(1, 128, (1, 1)), (4, 128, (5, 7)), (20, 128, (21, 39)), (20, 12, (20, 32))],
)
async def test_a_slow_ledger_holds_no_slots_and_is_not_flooded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, concurrency: int, most_ending: int, leased: tuple[int, int]
) -> None:
    """While nothing can be settled, as many more jobs run as may wait for it, and no further one; then each job has run once."""
    monkeypatch.setattr(lanes, "MOST_ENDING", most_ending)
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.05)  # whoever claims too much does it soon
    pings, jobs = Pings(), 60
    locks = await asyncpg.connect(settings.asyncpg_dsn)
    async with filled(settings, jobs) as engine, running(pings.app(concurrency), settings, relay=False) as system:
        assert system.worker is not None
        claims = next(loop for loop in system.worker.loops if loop.name == "claim")
        await until(lambda: len(pings.begun) >= 1)
        async with locks.transaction():
            await locks.execute("LOCK TABLE homing.deliveries IN SHARE MODE")  # reading goes on, settling waits
            await all_in_hand(engine, claims, *leased)
        await all_done(engine, jobs)
    await locks.close()
    assert sorted(pings.begun) == list(range(jobs))
    assert pings.most <= concurrency


async def turned(loop: Loop) -> None:
    """Wait for the next turn of a loop."""
    last = loop.last_tick
    await until(lambda: loop.last_tick > last, what=f"the loop {loop.name} turns")


async def all_in_hand(engine: RedisEngine, claims: Loop, least: int, most: int) -> None:
    """Wait until so many jobs are leased, and see that they do not become too many while the worker goes on looking for more."""

    async def leased() -> int:
        return (await engine.counts("mail")).active

    async def is_full() -> bool:
        return await leased() >= least

    await until(is_full, what=f"{least} jobs are leased")
    for _ in range(4):
        assert await leased() <= most
        await turned(claims)


async def test_a_row_that_somebody_holds_delays_no_other_job(settings: Settings) -> None:
    """A run whose row is locked waits for it; those that return meanwhile, one by one, are settled and finished."""
    pings = Pings()
    others = await asyncpg.connect(settings.asyncpg_dsn)
    holding = others.transaction()
    await holding.start()
    await others.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin) VALUES ($1, 'mail.ping', 'mail', 'ping', 'job')",
        foreign_id("mail", "ping-0", 1),
    )
    async with filled(settings, 1) as engine, running(pings.app(10), settings, relay=False):
        await until(lambda: pings.begun == [0])
        for number in range(1, 6):
            await engine.add("mail", [ping_job(number)])
            await all_done(engine, number)
        assert (await engine.counts("mail")).active == 1
        await holding.rollback()
        await all_done(engine, 6)
    await others.close()
    assert pings.begun == list(range(6))


async def test_with_one_slot_no_job_begins_before_the_last_one_ended(settings: Settings) -> None:
    """Whoever asks for one at a time gets it, to the end of the job in the engine."""
    seen: list[int] = []
    app = Homing("slots")
    async with filled(settings, 30) as engine:

        @app.queue("mail", concurrency=1).handler("ping", on=Pinged, at_least_once=True)
        async def ping(event: Pinged) -> None:
            counts = await engine.counts("mail")
            seen.append(counts.active)
            assert counts.completed == event.number

        async with running(app, settings, relay=False):
            await all_done(engine, 30)
    assert seen == [1] * 30
