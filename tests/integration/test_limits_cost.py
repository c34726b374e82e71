"""What a limit costs that never binds: jobs are claimed and finished in groups as without it, so that a drain asks no more often."""

import json
from typing import Any
from uuid import uuid4

from redis import Redis

from homing import Event, Homing, RateLimit
from homing.config.settings import Settings
from homing.durations import seconds
from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine
from tests.system import running
from tests.waiting import until

JOBS = 1_000


class Pinged(Event, topic="cost.pinged", unrouted=True):
    number: int


async def calls_of_a_drain(settings: Settings, queue: str, **limits: Any) -> int:
    """How many scripts a worker calls for a backlog of a queue with these limits."""
    app = Homing("cost")

    @app.queue(queue, concurrency=100, **limits).handler("ping", on=Pinged, at_least_once=True)
    async def ping(event: Pinged) -> None: ...

    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    await engine.add(queue, [job(number) for number in range(JOBS)])
    with Redis.from_url(settings.redis_dsn) as client:
        before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        async with running(app, settings, relay=False):

            async def drained() -> bool:
                return (await engine.counts(queue)).completed == JOBS

            await until(drained, 60, f"{queue} is drained")
        after = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    await engine.close()
    return int(after - before)


def job(number: int) -> NewJob:
    data = json.dumps({"eventId": str(uuid4()), "payload": {"number": number}})
    return NewJob(id=JobId(f"ping-{number}"), name="ping", data=data, timestamp_ms=1)


async def test_limits_that_never_bind_cost_no_more_calls(settings: Settings) -> None:
    """Neither a rate nor a bound of running jobs takes groups apart: half of the speed is what may be lost at most, and calls are most of it."""
    free = await calls_of_a_drain(settings, "free")
    rate = await calls_of_a_drain(settings, "rate", limit=RateLimit(1_000_000, per=seconds(1)))
    bound = await calls_of_a_drain(settings, "bound", global_concurrency=100_000)
    assert free < JOBS / 4
    assert rate <= 2 * free, (free, rate)
    assert bound <= 2 * free, (free, bound)
