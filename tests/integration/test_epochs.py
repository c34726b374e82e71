"""Epochs and lost data: a queue's data that is new, old, flushed or restarted, and what follows for its deliveries."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pytest
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Transaction
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.embedded import EmbeddedValkey
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.processes.relaying import RelayLoops
from homing.queue.redis import RedisEngine
from homing.relay import QueueWatch, register
from tests.own_servers import own_valkey, ready_valkey
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

QUEUE = "work"
JOBS = 12


class Asked(Event, topic="epoch.asked", unrouted=True):
    number: int = 0


@pytest.fixture(scope="module")
def _second_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    with own_valkey(tmp_path_factory.mktemp("second-valkey")) as server:
        yield server


@pytest.fixture
def second_valkey(_second_valkey: EmbeddedValkey) -> EmbeddedValkey:
    """Another server, to fail over to."""
    return ready_valkey(_second_valkey)


class Gate:
    """Holds the handler inside its run until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.runs: Counter[UUID] = Counter()


def effect_app(gate: Gate) -> Homing:
    app = Homing("test")

    @app.queue(QUEUE, concurrency=15).handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession]) -> None:
        gate.runs[event.event_id] += 1
        await tx.execute(text("INSERT INTO effects VALUES (:event_id)"), {"event_id": event.event_id})
        await gate.open.wait()

    return app


async def create_effects(system: System) -> None:
    await system.sql.execute("CREATE TABLE effects (event_id uuid)")


async def effects(system: System) -> list[tuple[int, int]]:
    """How many events have how many effects."""
    rows = await system.sql.fetch(
        "SELECT times, count(*) AS events FROM (SELECT count(*) AS times FROM effects GROUP BY event_id) t GROUP BY 1"
    )
    return [(row["times"], row["events"]) for row in rows]


async def epoch(system: System) -> int:
    value: int = await system.sql.fetchval("SELECT epoch FROM homing.queues WHERE queue = $1", QUEUE)
    return value


def flush(server: EmbeddedValkey) -> None:
    with Redis.from_url(server.url()) as client:
        client.flushall()


async def test_flush_while_jobs_wait_delivers_them_all(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """Jobs that were flushed while they waited come back in a new epoch; each has its effect once."""
    gate = Gate()
    gate.open.set()
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    async with running(with_sessions(effect_app(gate), settings), settings, worker=False) as system:
        await create_effects(system)
        await system.record(*(Asked(number=number) for number in range(JOBS)))

        async def all_wait() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == JOBS

        await until(all_wait, what="the jobs wait")
        before = await epoch(system)
        flush(disposable_valkey)
        await until(all_wait, what="the jobs wait again")
        assert await epoch(system) == before + 1
        async with running(with_sessions(effect_app(gate), settings), settings, relay=False):
            await system.settled()
        assert await effects(system) == [(1, JOBS)]


async def test_flush_while_jobs_run_leaves_one_effect_each(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """A flush in the middle of running handlers cancels none of them, and no effect happens twice or never."""
    gate = Gate()
    settings = quick(disposable_settings, beat=milliseconds(200))
    async with running(with_sessions(effect_app(gate), settings), settings) as system:
        await create_effects(system)
        await system.record(*(Asked(number=number) for number in range(JOBS)))
        await until(lambda: len(gate.runs) == JOBS, what="all of them run")
        before = await epoch(system)
        flush(disposable_valkey)

        async def new_epoch() -> bool:
            return await epoch(system) == before + 1

        await until(new_epoch, what="the loss was noticed")
        gate.open.set()
        await system.settled(timeout_seconds=20)
        assert await effects(system) == [(1, JOBS)]
        assert set(gate.runs.values()) == {1}
        assert await system.letters() == []


async def test_thousands_of_jobs_are_back_ten_seconds_after_the_grace(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """At the rate that is shipped, page after page: 2,000 deliveries here, and `python -m benchmarks.flush` for ten thousand."""
    jobs = 2_000
    settings = quick(disposable_settings, relay_poll=milliseconds(50), relay_batch=1_000)
    async with running(effect_app(Gate()), settings, worker=False) as system:
        for _ in range(2):
            await system.record(*(Asked(number=number) for number in range(jobs // 2)))

        async def all_wait() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == jobs

        await until(all_wait, 20, "the jobs wait")
        flush(disposable_valkey)
        await until(all_wait, 10, "the jobs wait again")
        assert system.relay is not None
        assert system.relay.sweep.findings == {"gone": jobs}


async def test_flush_waits_for_its_grace_before_anything_is_dispatched_again(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """Within the grace nothing is dispatched, so that runs that survived the flush can settle first."""
    gate = Gate()
    settings = quick(disposable_settings, look_grace=seconds(3600))
    async with running(with_sessions(effect_app(gate), settings), settings, worker=False) as system:
        await create_effects(system)
        await system.record(Asked())

        async def waiting() -> int:
            return (await system.engine.counts(QUEUE)).waiting

        await until(waiting, what="the job waits")
        before = await epoch(system)
        flush(disposable_valkey)

        async def new_epoch() -> bool:
            return await epoch(system) == before + 1

        await until(new_epoch, what="the loss was noticed")
        assert system.relay is not None
        await system.relay.sweep.tick()
        assert await waiting() == 0
        await system.sql.execute("UPDATE homing.queues SET changed_at = changed_at - interval '2 hours'")
        await system.relay.sweep.tick()
        assert await until(waiting, what="the job is back") == 1


class AskedToo(Event, topic="epoch.asked.too", unrouted=True):
    number: int = 0


async def test_new_queue_waits_for_no_grace(settings: Settings) -> None:
    """Events routed to a queue before it was ever verified are dispatched at once: nothing of its first epoch can be lost."""
    known = Homing("known")

    @known.queue("known").handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None: ...

    newer = Homing("newer")

    @newer.queue("new").handler("do", on=AskedToo, at_least_once=True)
    async def do_too(event: AskedToo) -> None: ...

    async with running(known, quick(settings), worker=False, relay=False) as system:
        relay = RelayLoops(known, quick(settings, look_grace=seconds(3600)), ledger=system.ledger, engine=system.engine)
        await relay.watch.tick()
        await register(system.ledger, newer.handlers)
        await system.record(AskedToo())
        await relay.relay.tick()
        assert (await system.engine.counts("new")).waiting == 0
        await relay.watch.tick()
        await relay.sweep.tick()
        assert (await system.engine.counts("new")).waiting == 1


async def test_restart_keeps_jobs_and_begins_an_epoch(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """A server that comes back from its append-only file has its jobs; the look confirms it and adds nothing twice."""
    gate = Gate()
    gate.open.set()
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    async with running(with_sessions(effect_app(gate), settings), settings, worker=False) as system:
        await create_effects(system)
        await system.record(*(Asked(number=number) for number in range(JOBS)))

        async def all_wait() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == JOBS

        await until(all_wait, what="the jobs wait")
        before = await epoch(system)
        disposable_valkey.stop()
        disposable_valkey.start()

        async def new_epoch() -> bool:
            return await epoch(system) == before + 1

        await until(new_epoch, what="the restart was noticed")

        async def looked() -> bool:
            return not await system.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE epoch <= $1", before)

        await until(looked, what="every delivery was looked at")
        assert system.relay is not None
        assert system.relay.sweep.redispatched == 0
        assert await all_wait()
        async with running(with_sessions(effect_app(gate), settings), settings, relay=False):
            await system.settled()
        assert await effects(system) == [(1, JOBS)]
        assert set(gate.runs.values()) == {1}


async def test_deposed_server_gets_nothing(
    disposable_settings: Settings,
    disposable_valkey: EmbeddedValkey,
    second_valkey: EmbeddedValkey,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once the ledger has seen a newer server, a relay that still talks to the old one dispatches nothing there, and says so."""
    gate = Gate()
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    newer = settings.model_copy(update={"redis_url": second_valkey.url()})
    async with running(effect_app(gate), settings, worker=False) as old:
        assert old.relay is not None
        watch = old.relay.watch
        await until(lambda: watch.epochs == {QUEUE: 1}, what="the first server is verified")
        async with running(effect_app(gate), newer, worker=False) as system:
            await until(lambda: watch.epochs == {}, what="the old relay noticed that its server was deposed")
            assert "stale server" in caplog.text
            await system.record(*(Asked(number=number) for number in range(JOBS)))

            async def all_wait() -> bool:
                return (await system.engine.counts(QUEUE)).waiting == JOBS

            await until(all_wait, what="the jobs wait in the newer server")
            assert (await old.engine.counts(QUEUE)).waiting == 0
            assert await epoch(system) == 2


async def test_two_watches_of_one_server_agree_on_one_epoch(settings: Settings) -> None:
    """Relays that meet a new server at the same time begin one epoch together, not one each."""
    app = effect_app(Gate())
    async with running(app, quick(settings), worker=False, relay=False) as system:
        watches = [QueueWatch(system.ledger, system.engine) for _ in range(6)]
        await asyncio.gather(*(watch.tick() for watch in watches))
        assert [watch.epochs for watch in watches] == [{QUEUE: 1}] * 6
        assert await epoch(system) == 1


async def test_queue_without_an_answer_loses_its_epoch_and_the_relay_routes_nothing(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """What cannot be asked is not believed: no verified queue, no routing, no look."""
    engine = RedisEngine(disposable_valkey.url(), prefix="own", silence_seconds=0.5)
    settings = quick(disposable_settings)
    async with running(effect_app(Gate()), settings, worker=False, relay=False, engine=engine):
        ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
        await ledger.open()
        try:
            watch = QueueWatch(ledger, engine)
            await watch.tick()
            assert watch.epochs == {QUEUE: 1}
            disposable_valkey.stop()
            with pytest.raises(ServerUnavailable):
                await watch.tick()
            assert watch.epochs == {}
        finally:
            await ledger.close()
