"""A worker that stops with runs of different length: every lease is renewed until the last of them ends, and nothing begins any more."""

import asyncio
import threading
import time

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Transaction
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.queue.redis import RedisEngine
from tests.system import System, quick, running, with_sessions
from tests.waiting import until, wait_until

LEASE_SECONDS = 1.2
KINDS = ("least", "once", "thread")


class Asked(Event, topic="stopping.asked", unrouted=True):
    number: int


class Gates:
    """Which runs were begun, and which may leave, from the loop and from threads."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.ended: list[tuple[str, int]] = []
        self.open = [threading.Event() for _ in range(3)]

    def enter(self, kind: str, number: int) -> threading.Event:
        self.begun.append((kind, number))
        return self.open[number]


def app_with(gates: Gates) -> Homing:
    """Three queues with a handler of each kind, and room for two of three jobs."""
    app = Homing("stopping")

    async def pass_through(kind: str, number: int) -> None:
        gate = gates.enter(kind, number)
        await until(gate.is_set, 40, f"{kind} {number} may leave")
        gates.ended.append((kind, number))

    @app.queue("least", concurrency=2).handler("do", on=Asked, at_least_once=True)
    async def do_least(event: Asked) -> None:
        await pass_through("least", event.number)

    @app.queue("once", concurrency=2).handler("do", on=Asked)
    async def do_once(event: Asked, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(text("INSERT INTO effects VALUES (:number)"), {"number": event.number})
        await pass_through("once", event.number)

    @app.queue("thread", concurrency=2).handler("do", on=Asked, at_least_once=True)
    def do_in_a_thread(event: Asked) -> None:
        gate = gates.enter("thread", event.number)
        wait_until(gate.is_set, 40, "the thread may leave")
        gates.ended.append(("thread", event.number))

    return app


async def rescued_meanwhile(settings: Settings, over: asyncio.Event) -> list[str]:
    """What another worker would take for jobs that nobody runs any more."""
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    rescued: list[str] = []
    while not over.is_set():
        for kind in KINDS:
            rescued += await engine.rescue(kind, 0.02)
    await engine.close()
    return rescued


async def two_leases_pass() -> None:
    began = time.monotonic()
    await until(lambda: time.monotonic() - began > 2 * LEASE_SECONDS, what="two leases have passed")


async def test_leases_are_renewed_until_the_last_run_ends(settings: Settings) -> None:
    """The first run that ends, and the claims that are over, end no renewal: nobody takes what still runs, and each job runs once."""
    gates, over = Gates(), asyncio.Event()
    app = with_sessions(app_with(gates), settings)
    brief = quick(settings, lease=seconds(LEASE_SECONDS), beat=milliseconds(200), rescue=seconds(60), look=seconds(60))
    async with running(app, brief, worker=False) as system:
        await system.sql.execute("CREATE TABLE effects (number integer)")
        for number in range(3):  # one after the other, so that it is known which of them waits
            await system.record(Asked(number=number))
            await wait_for_waiting(system, number + 1)
        async with running(app, brief, relay=False) as working:
            worker = working.worker
            assert worker is not None
            await until(lambda: len(gates.begun) == 6, what="every slot is taken")
            rescuer = asyncio.create_task(rescued_meanwhile(brief, over))
            stopping = asyncio.create_task(worker.stop(600))
            await until(lambda: not worker.health().ready, what="it stops")
            gates.open[0].set()
            await until(lambda: len(gates.ended) == 3, what="the short runs have ended")
            await two_leases_pass()
            assert not stopping.done()
            gates.open[1].set()
            assert await stopping is True
            over.set()
            assert await rescuer == []
        assert sorted(gates.begun) == sorted((kind, number) for kind in KINDS for number in (0, 1))
        for kind in KINDS:
            counts = await system.engine.counts(kind)
            assert (counts.completed, counts.active, counts.waiting) == (2, 0, 1)
        assert sorted(row["number"] for row in await system.sql.fetch("SELECT number FROM effects")) == [0, 1]


async def wait_for_waiting(system: System, number: int) -> None:
    """Wait until so many jobs wait in each queue."""

    async def all_wait() -> bool:
        return all([(await system.engine.counts(kind)).waiting == number for kind in KINDS])

    await until(all_wait, what=f"{number} jobs wait in each queue")
