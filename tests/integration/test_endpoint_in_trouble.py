"""What the endpoint of a worker in trouble says: a claim loop that died, a handler that does not listen, a lease that another run took."""

import asyncio
from typing import Any

import asyncpg
import pytest
from redis import Redis

from homing import Event, Homing, Retry, record
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.ids import DeliveryKey
from homing.processes import watching
from homing.queue.redis.keys import QueueKeys
from homing.worker import endings
from tests.integration.test_endpoint import Endpoint, serving, values
from tests.waiting import until

QUEUE = "work"


class Asked(Event, topic="trouble.asked", unrouted=True):
    mood: str


class Hand:
    """What the handler did, and when it may leave."""

    def __init__(self) -> None:
        self.entered = 0
        self.may_leave = asyncio.Event()


def app_with(hand: Hand) -> Homing:
    app = Homing("trouble")

    @app.queue(QUEUE, concurrency=2).handler(
        "do", on=Asked, at_least_once=True, retry=Retry(attempts=1), timeout=milliseconds(200)
    )
    async def do(event: Asked) -> None:
        while event.mood == "deaf" and not hand.may_leave.is_set():
            try:
                await hand.may_leave.wait()
            except asyncio.CancelledError:
                continue

    @app.queue("held").handler("do", on=Asked, at_least_once=True)
    async def hold(event: Asked) -> None:
        if event.mood == "held":
            hand.entered += 1
            await hand.may_leave.wait()

    return app


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "COLLECT_SECONDS", 0.2)
    monkeypatch.setattr(endings, "LETTING_GO_SECONDS", 0.1)


async def recorded(settings: Settings, event: Event) -> None:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    async with connection.transaction():
        await record(connection, event)
    await connection.close()


async def exposed(endpoint: Endpoint, name: str, wanted: float, **labels: str) -> None:
    """Wait until a series has this value; a gauge that says nothing is 0."""

    async def has_it() -> bool:
        families = await endpoint.families()
        found = values(families[name], **labels) if name in families else []
        return (found or [0.0]) == [wanted]

    await until(has_it, 20, f"{name} is {wanted:g}")


async def test_a_handler_that_does_not_listen_is_a_number_until_it_ends(settings: Settings) -> None:
    """By queue and job, while it still runs; its slot is free meanwhile, and the worker ready."""
    hand = Hand()
    async with serving(app_with(hand), settings) as endpoint:
        await recorded(settings, Asked(mood="deaf"))
        await exposed(endpoint, "homing_jobs_stuck", 1.0, queue=QUEUE, job="do")
        await exposed(endpoint, "homing_worker_running_jobs", 0.0, queue=QUEUE)
        assert (await endpoint.get("/readyz"))[0] == 200
        hand.may_leave.set()
        await exposed(endpoint, "homing_jobs_stuck", 0.0, queue=QUEUE, job="do")


async def test_a_lease_that_was_taken_is_counted_with_its_job(settings: Settings) -> None:
    """Once, whatever becomes of the run."""
    hand = Hand()
    async with serving(app_with(hand), settings) as endpoint:
        event = Asked(mood="held")
        await recorded(settings, event)
        await until(lambda: hand.entered == 1, what="it runs")
        lock = QueueKeys(settings.prefix or "", "held").lock(DeliveryKey(event.event_id, "held.do", 1).job_id)
        with Redis.from_url(settings.redis_dsn) as client:
            client.set(lock, "another", px=60_000)
            await exposed(endpoint, "homing_leases_lost", 1.0, queue="held", job="do")
            await exposed(endpoint, "homing_worker_running_jobs", 0.0, queue="held")
            client.delete(lock)
        hand.may_leave.set()


async def test_a_claim_loop_that_died_is_seen_at_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is up, and neither live nor ready: whoever asks hears which loop it is, long before the process ends by itself."""
    monkeypatch.setattr("homing.processes.watchdog.END_AFTER_SECONDS", 600.0)
    async with serving(app_with(Hand()), settings) as endpoint:

        async def status(path: str) -> tuple[int, Any]:
            return await endpoint.get(path)

        async def is_ready() -> bool:
            return (await status("/readyz"))[0] == 200

        await until(is_ready, 20, "it is ready")
        (claims,) = [task for task in asyncio.all_tasks() if task.get_name() == "homing:claim"]
        claims.cancel()

        async def is_dead() -> bool:
            return (await status("/livez"))[0] == 503

        await until(is_dead, 20, "it is not live")
        assert (await status("/livez"))[1]["reasons"] == ["the loop claim is dead"]
        assert (await status("/readyz"))[0] == 503
