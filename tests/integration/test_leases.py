"""Leases under attack: stolen, deleted, kept by a thread while the loop is blocked, and one delivery claimed twice."""

import asyncio
import threading
import time

import pytest
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, Transaction
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.ids import DeliveryKey
from homing.queue.redis import RedisEngine
from homing.queue.redis.keys import QueueKeys
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

QUEUE = "work"
CONSUMER = "work.do"


class Asked(Event, topic="lease.asked", unrouted=True):
    number: int = 0


def lock_of(settings: Settings, event: Event) -> str:
    """The key that holds the token of the event's job."""
    job_id = DeliveryKey(event.event_id, CONSUMER, 1).job_id
    return QueueKeys(settings.prefix or "", QUEUE).lock(job_id)


async def create_effects(system: System) -> None:
    await system.sql.execute("CREATE TABLE effects (event_id uuid)")


async def effects(system: System) -> int:
    count: int = await system.sql.fetchval("SELECT count(*) FROM effects")
    return count


ADD_EFFECT = text("INSERT INTO effects VALUES (:event_id)")


class Handshake:
    """A handler that says when it is inside and leaves when it may."""

    def __init__(self) -> None:
        self.entered = 0
        self.cancelled = 0
        self.may_leave = asyncio.Event()

    async def pass_through(self) -> None:
        self.entered += 1
        try:
            await self.may_leave.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def held_app(handshake: Handshake) -> Homing:
    app = Homing("test")

    @app.queue(QUEUE).handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD_EFFECT, {"event_id": event.event_id})
        await handshake.pass_through()

    return app


async def test_run_whose_lease_was_taken_is_cancelled_and_counted(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that finds another's token in its lock ends, commits nothing, and leaves the job to the other."""
    handshake = Handshake()
    fast = quick(settings, lease=seconds(1.5), beat=milliseconds(200))
    async with running(with_sessions(held_app(handshake), settings), fast) as system:
        await create_effects(system)
        event = Asked()
        await system.record(event)
        await until(lambda: handshake.entered == 1, what="the handler runs")
        with Redis.from_url(settings.redis_dsn) as client:
            client.set(lock_of(settings, event), "another", px=60_000)
            await until(lambda: handshake.cancelled == 1, what="the run was cancelled")
            worker = system.worker
            assert worker is not None
            await until(lambda: worker.running == 0, what="the run has ended")
            assert worker.leases_lost == 1
            assert await effects(system) == 0
            assert await system.deliveries() == {CONSUMER: None}
            assert client.get(lock_of(settings, event)) == b"another"
            handshake.may_leave.set()
            client.delete(lock_of(settings, event))  # the other one dies
        await system.settled(timeout_seconds=15)
        assert await effects(system) == 1
        assert "another run holds its lease" in caplog.text


async def test_run_whose_lease_is_missing_goes_on(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """A lock that is merely gone cancels nothing: the run goes on, and its effect counts once."""
    handshake = Handshake()
    fast = quick(settings, beat=milliseconds(100), rescue=seconds(30))
    async with running(with_sessions(held_app(handshake), settings), fast) as system:
        await create_effects(system)
        event = Asked()
        await system.record(event)
        await until(lambda: handshake.entered == 1, what="the handler runs")
        with Redis.from_url(settings.redis_dsn) as client:
            client.delete(lock_of(settings, event))
        await until(lambda: "lease is missing" in caplog.text, what="the missing lease was noticed")
        handshake.may_leave.set()
        await system.settled()
        assert (handshake.entered, handshake.cancelled) == (1, 0)
        assert await effects(system) == 1


async def test_handler_that_blocks_the_loop_keeps_its_lease(settings: Settings) -> None:
    """A handler that blocks the event loop for two leases runs once: a thread renews the lease meanwhile."""
    app = Homing("test")
    runs: list[int] = []

    @app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked, job: Job) -> None:
        runs.append(job.attempt)
        threading.Event().wait(3.2)  # the mistake that is tested: nothing else in this loop runs meanwhile

    brief = quick(settings, lease=seconds(1.5), beat=milliseconds(250), rescue=milliseconds(200))
    async with running(app, brief) as system:
        rescuer = asyncio.create_task(asyncio.to_thread(rescue_meanwhile, brief, 4.0))
        await system.record(Asked())
        await system.settled()
        assert await rescuer == []
        assert runs == [1]


def rescue_meanwhile(settings: Settings, for_seconds: float) -> list[str]:
    """What another process, whose loop is free, rescues meanwhile."""

    async def rescue() -> list[str]:
        engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
        await engine.open()
        rescued: list[str] = []
        deadline = time.monotonic() + for_seconds

        async def over() -> bool:
            rescued.extend(await engine.rescue(QUEUE, 0.05))
            return time.monotonic() > deadline

        await until(over, for_seconds + 5)
        await engine.close()
        return rescued

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(rescue())


async def test_delivery_dispatched_again_while_it_runs_has_one_effect(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two claims of one delivery at once, because its job vanished while it ran: the row lets one of them count."""
    monkeypatch.setattr("homing.worker.performing.LOCK_SECONDS", 0.3)
    handshake = Handshake()
    app = with_sessions(held_app(handshake), settings)
    async with running(app, quick(settings, rescue=seconds(30), lease=seconds(60), beat=seconds(20))) as system:
        # no beat falls into the test: the first run would hear that another holds its lease
        await create_effects(system)
        event = Asked()
        await system.record(event)
        await until(lambda: handshake.entered == 1, what="the first run is inside its transaction")
        with Redis.from_url(settings.redis_dsn) as client:
            for key in client.scan_iter(match=f"{settings.prefix}:{QUEUE}:{event.event_id}*"):
                client.delete(key)
        sql_row = await system.sql.fetchrow(
            "SELECT d.event_id, d.consumer, d.queue, d.job_name, d.generation, d.opened_at, e.payload::text AS payload,"
            " e.headers::text AS headers, e.created_at, NULL AS options, 'tx' AS mode"
            " FROM homing.deliveries d JOIN homing.outbox_events e ON e.id = d.event_id"
        )
        assert sql_row is not None
        relay = system.relay
        assert relay is not None
        assert len(await relay.dispatcher.dispatch([sql_row])) == 1

        async def both_claimed() -> bool:
            (trace,) = await system.engine.inspect(QUEUE, [DeliveryKey(event.event_id, CONSUMER, 1).job_id])
            worker = system.worker
            assert worker is not None
            return trace.exists and (await system.engine.counts(QUEUE)).delayed == 1 and worker.running == 1

        await until(both_claimed, what="the second run met the row lock and went back without an attempt")
        handshake.may_leave.set()
        await system.settled()
        assert await effects(system) == 1
        assert await system.letters() == []

        async def finished() -> bool:
            (trace,) = await system.engine.inspect(QUEUE, [DeliveryKey(event.event_id, CONSUMER, 1).job_id])
            return trace.finished and trace.mark == "done"

        await until(finished, what="the second job was finished as a duplicate")
        assert handshake.entered == 1
