"""One worker serves many queues over one connection that waits: each is woken, a full one takes no more than it may, and none waits for a poll."""

import asyncio
from collections import Counter

import pytest
from redis import Redis

from homing import Event, Homing, Job
from homing.config.settings import Settings
from homing.durations import minutes
from homing.worker import lanes
from tests.system import quick, running
from tests.waiting import until

QUEUES = 20
SLOTS = 2
NEVER = 600.0


class Asked(Event, topic="many.asked", unrouted=True):
    number: int


class Busy(Event, topic="many.busy", unrouted=True):
    number: int


class Runs:
    """What has begun in which queue, and how many at most at once in the busy one."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.busy: set[int] = set()
        self.most = 0
        self.may_leave = asyncio.Semaphore(0)


def app_with(runs: Runs) -> Homing:
    app = Homing("many")

    async def note(event: Asked, job: Job) -> None:
        runs.begun[job.queue] += 1

    for number in range(QUEUES):
        app.queue(f"queue-{number}", concurrency=1).handler("do", on=Asked, at_least_once=True)(note)

    @app.queue("busy", concurrency=SLOTS).handler("do", on=Busy, at_least_once=True)
    async def stay(event: Busy) -> None:
        runs.busy.add(event.number)
        runs.most = max(runs.most, len(runs.busy))
        await runs.may_leave.acquire()
        runs.busy.discard(event.number)

    return app


async def test_all_queues_are_served_over_one_waiting_connection(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full queue among them whose jobs wait; no more is claimed than can start, and what waits starts as soon as a slot is free."""
    monkeypatch.setattr(lanes, "POLL_SECONDS", NEVER)
    runs = Runs()
    patient = quick(settings, rescue=minutes(9), look=minutes(9))
    async with running(app_with(runs), patient) as system:
        await system.record(*(Busy(number=number) for number in range(6)))
        await until(lambda: len(runs.busy) == SLOTS, what="the busy queue is full")
        for turn in range(1, 4):
            await system.record(Asked(number=turn))
            await every_queue(runs, turn)
        counts = await system.engine.counts("busy")
        assert (counts.active, counts.waiting) == (SLOTS, 6 - SLOTS)
        with Redis.from_url(redis_url, decode_responses=True) as client:
            names = Counter(one["name"] for one in client.client_list() if one["name"].startswith("homing"))
        assert names["homing-wait"] == 1
        assert names.total() <= 3, names
        for _ in range(6):
            runs.may_leave.release()
        await system.settled()
    assert runs.most == SLOTS


async def every_queue(runs: Runs, times: int) -> None:
    """Wait until every queue but the busy one has had so many runs."""
    await until(lambda: [*runs.begun.values()] == [times] * QUEUES, what=f"turn {times} has come to every queue")
