"""What a lonely job asks of Redis, however many slots are free, and how soon it is picked up."""

import json
import time
from collections import Counter
from itertools import count
from uuid import uuid4

import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine
from homing.service import Loop
from homing.worker import lanes
from homing.worker.lanes import POLL_SECONDS
from tests.contract.proxy import TcpProxy
from tests.system import running
from tests.waiting import until

JOBS = 15


class Pinged(Event, topic="low_load.pinged", unrouted=True):
    number: int


async def add_and_wait(engine: RedisEngine, number: int) -> None:
    """Add one job past the worker's connections and wait until it is finished."""
    job_id = JobId(f"lonely-{number}")
    data = json.dumps({"eventId": str(uuid4()), "payload": {"number": number}})
    await engine.add("mail", [NewJob(id=job_id, name="ping", data=data, timestamp_ms=int(time.time() * 1000))])

    async def finished() -> bool:
        return (await engine.inspect("mail", [job_id]))[0].finished

    await until(finished)


@pytest.mark.parametrize("concurrency", [1, 10, 100])
async def test_a_lonely_job_costs_three_commands(settings: Settings, concurrency: int) -> None:
    """One wake-up, one claim, one finish a job, and nothing else is sent while jobs come one by one but the net of the wait."""
    app = Homing("low-load")

    @app.queue("mail", concurrency=concurrency).handler("ping", on=Pinged, at_least_once=True)
    async def ping(event: Pinged) -> None: ...

    port = int(settings.redis_dsn.rpartition(":")[2].partition("/")[0])
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    async with TcpProxy(port) as proxy:
        through_proxy = settings.model_copy(
            update={"redis_url": settings.redis_dsn.replace(f":{port}/", f":{proxy.port}/")}
        )
        async with running(app, through_proxy, relay=False):
            await add_and_wait(engine, 0)
            await until(lambda: proxy.commands[-1][0] == b"BZPOPMIN")
            before, started = len(proxy.commands), time.monotonic()
            for number in range(1, JOBS + 1):
                await add_and_wait(engine, number)
            sent = Counter(words[0] for words in proxy.commands[before:])
            polls = 1 + int((time.monotonic() - started) / POLL_SECONDS)
    await engine.close()
    # An idle lane asks by itself every few seconds: it ends its wait, claims, and waits again.
    assert sent.total() <= 3 * (JOBS + polls), sent
    assert 2 * JOBS <= sent[b"EVALSHA"] <= 2 * JOBS + polls, sent


async def turned(loop: Loop) -> None:
    """Wait for the next turn of a loop."""
    last = loop.last_tick
    await until(lambda: loop.last_tick > last, what=f"the loop {loop.name} turns")


@pytest.mark.parametrize("delayed", [False, True], ids=["nothing delayed", "a delayed job in the queue"])
async def test_an_idle_worker_picks_up_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, delayed: bool
) -> None:
    """After any idle time, the wait having been renewed again and again, a job starts within a tenth of a second."""
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.05)
    app = Homing("low-load")
    started: list[float] = []

    @app.queue("mail").handler("ping", on=Pinged, at_least_once=True)
    async def ping(event: Pinged) -> None:
        started.append(time.monotonic())

    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    async with running(app, settings, relay=False) as system:
        assert system.worker is not None
        claims = next(loop for loop in system.worker.loops if loop.name == "claim")
        if delayed:
            later = NewJob(id=JobId("later"), name="ping", data="{}", timestamp_ms=1, delay_seconds=600)
            await engine.add("mail", [later])
        numbers = count()

        async def picked_up_at_once() -> bool:
            for _ in range(3):
                await turned(claims)
            added = time.monotonic()
            await add_and_wait(engine, next(numbers))
            return started[-1] - added < 0.1

        await until(picked_up_at_once)  # a busy machine delays some; a deaf worker would delay them all
    await engine.close()
    assert len(started) == next(numbers)
