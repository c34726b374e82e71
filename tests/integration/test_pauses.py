"""Pauses: made in a queue tool, kept by the ledger, back before any job after the engine lost its data."""

from collections.abc import Sequence

import asyncpg
import pytest
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.embedded import EmbeddedValkey
from homing.queue.job import NewJob
from homing.queue.port import AddResult, QueueSettings
from homing.queue.redis import RedisEngine
from homing.relay import QueueWatch, push_settings
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "work"
PAUSED, RESUMED = QueueSettings(paused=True), QueueSettings(paused=False)


class Asked(Event, topic="pauses.asked", unrouted=True):
    number: int = 0


def app_of(seen: list[int]) -> Homing:
    app = Homing("test")

    @app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        seen.append(event.number)

    return app


class PauseNotingEngine(RedisEngine):
    """Notes whether the queue was paused at every add."""

    paused_at_add: list[bool]

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult]:
        self.paused_at_add.append((await self.observe(queue)).paused)
        return await super().add(queue, jobs)


async def kept(system: System) -> bool | None:
    """What the ledger has."""
    value: bool | None = await system.sql.fetchval("SELECT (settings->>'paused')::boolean FROM homing.queues")
    return value


async def test_a_pause_survives_a_flush_and_so_does_its_end(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """The queue is paused again before a job is dispatched again; nothing runs until somebody resumes it."""
    seen: list[int] = []
    engine = PauseNotingEngine(disposable_settings.redis_dsn, prefix="own")
    engine.paused_at_add = []
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    async with running(app_of(seen), settings, engine=engine) as system:
        relay = system.relay
        assert relay is not None
        await until(lambda: relay.watch.epochs, what="the queue is verified")
        await engine.push_settings(QUEUE, PAUSED)  # as Bull Board does it
        await relay.watch.tick()
        assert await kept(system) is True
        await system.record(Asked(number=1))

        async def waits() -> bool:
            return (await engine.counts(QUEUE)).waiting == 1

        await until(waits, what="the job waits in the paused queue")
        with Redis.from_url(disposable_valkey.url()) as client:
            client.flushall()
        await until(waits, what="the job waits again")
        assert engine.paused_at_add == [True, True]
        assert (await engine.observe(QUEUE)).paused
        assert seen == []
        await engine.push_settings(QUEUE, RESUMED)
        await system.settled()
        await relay.watch.tick()
        assert (seen, await kept(system)) == ([1], False)


async def test_starts_and_other_relays_leave_the_engines_pause_alone(settings: Settings) -> None:
    """As long as the data lives the engine knows best: whoever starts, and whatever the ledger thinks, the pause stays as people set it."""
    async with running(app_of([]), quick(settings), worker=False, relay=False) as system:
        watches = [QueueWatch(system.ledger, system.engine) for _ in range(2)]
        await watches[0].tick()
        await system.engine.push_settings(QUEUE, PAUSED)
        await push_settings(system.ledger, system.engine, system.app.queues)
        await watches[1].tick()
        assert await kept(system) is True
        await system.engine.push_settings(QUEUE, RESUMED)
        await push_settings(system.ledger, system.engine, system.app.queues)
        for watch in watches:
            await watch.tick()
        assert not (await system.engine.observe(QUEUE)).paused
        assert await kept(system) is False


async def test_a_relay_that_dies_before_it_registers_new_data_takes_no_pause_with_it(settings: Settings) -> None:
    """Settings are pushed before the ledger knows the incarnation: killed in between, the next relay pushes them again."""
    async with running(app_of([]), quick(settings), worker=False, relay=False) as system:
        await QueueWatch(system.ledger, system.engine).tick()
        await system.sql.execute("UPDATE homing.queues SET settings = '{\"paused\": true}'")
        await system.sql.execute("UPDATE homing.queue_epochs SET identity = 'the one that was lost'")
        await system.sql.execute("ALTER TABLE homing.queue_epochs ADD CONSTRAINT dies CHECK (epoch < 2)")
        dying = QueueWatch(system.ledger, system.engine)
        with pytest.raises(asyncpg.CheckViolationError, match="dies"):  # as if it were killed before the ledger heard
            await dying.tick()
        assert dying.epochs == {}
        await system.engine.push_settings(QUEUE, RESUMED)
        await system.sql.execute("ALTER TABLE homing.queue_epochs DROP CONSTRAINT dies")
        await QueueWatch(system.ledger, system.engine).tick()
        assert (await system.engine.observe(QUEUE)).paused


async def test_a_pause_that_the_ledger_missed_is_not_taken_back(settings: Settings) -> None:
    """Paused while no relay ran, then restarted: the new incarnation is paused although the ledger knows of no pause, and learns of it."""
    async with running(app_of([]), quick(settings), worker=False, relay=False) as system:
        await QueueWatch(system.ledger, system.engine).tick()
        await system.sql.execute("UPDATE homing.queues SET settings = '{\"paused\": false}'")
        await system.sql.execute("UPDATE homing.queue_epochs SET identity = 'before the restart'")
        await system.engine.push_settings(QUEUE, PAUSED)
        watch = QueueWatch(system.ledger, system.engine)
        await watch.tick()
        assert watch.epochs == {QUEUE: 2}
        assert (await system.engine.observe(QUEUE)).paused
        await watch.tick()
        assert await kept(system) is True
