"""Schedules on real servers: declared by many, kept by the ledger, back after a flush, and each tick's effect once."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, Tick, Transaction
from homing.config.settings import Settings
from homing.deadletters.redrive import Redrive
from homing.durations import hours
from homing.embedded import EmbeddedValkey
from homing.errors import EnqueueError
from homing.events.envelope import foreign_id
from homing.ids import new_token
from homing.ledger.actions import Person
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest
from homing.queue.redis import RedisEngine
from homing.queue.schedules import Schedule, TickId
from homing.scheduler import Keeper, declare_schedules
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

QUEUE = "maintenance"
MADE_BY_NODE = Schedule(id="theirs", job_name="report", cron="0 4 * * *", zone="Europe/Paris", data='{"a":1}')


def app_of(settings: Settings, ticks: list[Tick]) -> Homing:
    app = Homing("test")
    maintenance = app.queue(QUEUE)

    @maintenance.schedule("hourly", every=hours(1))
    async def count(tick: Tick, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(text("INSERT INTO counted VALUES (1)"))
        ticks.append(tick)

    @maintenance.schedule("nightly", cron="0 3 * * *", zone="Asia/Ho_Chi_Minh", at_least_once=True)
    async def clean(tick: Tick) -> None:
        ticks.append(tick)

    return with_sessions(app, settings)


async def counted(system: System) -> int:
    value: int = await system.sql.fetchval("SELECT count(*) FROM counted")
    return value


async def row(system: System, name: str) -> dict[str, object] | None:
    found = await system.sql.fetchrow("SELECT * FROM homing.schedules WHERE schedule = $1", name)
    return None if found is None else dict(found)


@pytest.fixture
async def settings_with_table(disposable_settings: Settings) -> Settings:
    connection = await asyncpg.connect(disposable_settings.asyncpg_dsn)
    await connection.execute("CREATE TABLE counted (n integer NOT NULL)")
    await connection.close()
    return quick(disposable_settings)


async def test_replicas_make_one_schedule_whose_tick_counts_once(settings_with_table: Settings) -> None:
    """Three processes declare at boot; the tick runs once, and a second job of the same tick is a duplicate."""
    ticks: list[Tick] = []
    app = app_of(settings_with_table, ticks)
    async with running(app, settings_with_table) as system:
        await asyncio.gather(*(declare_schedules(system.ledger, system.engine, app.schedules) for _ in range(3)))
        await until(lambda: ticks, what="the interval has begun")
        (tick,) = ticks
        assert tick.schedule == "hourly"
        assert abs(tick.due_at - datetime.now(UTC)) < timedelta(minutes=30)
        held = {one.schedule.id: one for one in await system.engine.schedules(QUEUE)}
        assert set(held) == {"hourly", "nightly"}
        assert held["hourly"].next_ms == round(tick.due_at.timestamp() * 1000) + 3_600_000
        assert (await system.engine.counts(QUEUE)).delayed == 2
        due_ms = round(tick.due_at.timestamp() * 1000)
        job_id = TickId("hourly", due_ms).job_id
        await until(lambda: _finished(system, job_id), what="its job is finished")
        assert await system.engine.remove(QUEUE, job_id)
        assert await system.engine.add_run(QUEUE, held["hourly"].schedule, job_id)
        await until(lambda: _finished(system, job_id), what="the same tick was looked at again")
        assert await counted(system) == 1
        settled = await system.sql.fetch("SELECT event_id, outcome FROM homing.deliveries")
        assert [tuple(one) for one in settled] == [(foreign_id(QUEUE, job_id, 0), "done")]


async def _finished(system: System, job_id: str) -> bool:
    (trace,) = await system.engine.inspect(QUEUE, [job_id])  # type: ignore[list-item]  # an id by its text
    return trace.finished


async def test_a_flush_takes_no_schedule_and_no_tick(
    settings_with_table: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """The ones in code and the ones that others made come back with the ticks that they had; a paused one does not."""
    ticks: list[Tick] = []
    async with running(app_of(settings_with_table, ticks), settings_with_table) as system:
        assert system.relay is not None
        await until(lambda: ticks, what="the interval has begun")
        await system.engine.upsert_schedules(QUEUE, [MADE_BY_NODE, replace(MADE_BY_NODE, id="paused")])
        await until(lambda: _is_kept(system), what="the ledger keeps what others made")
        await system.sql.execute("UPDATE homing.schedules SET paused_at = now() WHERE schedule = 'paused'")
        before = {one.schedule.id: one for one in await system.engine.schedules(QUEUE)}
        _flush(disposable_valkey)
        await until(lambda: _is_back(system), what="the schedules are back")
        after = {one.schedule.id: one for one in await system.engine.schedules(QUEUE)}
        for name, held in after.items():
            assert held.schedule.is_as(before[name].schedule)
            assert held.next_ms == before[name].next_ms
        assert await counted(system) == 1


async def _is_back(system: System) -> bool:
    return set(await system.engine.due_times(QUEUE)) == {"hourly", "nightly", "theirs"}


def _flush(server: EmbeddedValkey) -> None:
    with Redis.from_url(server.url()) as client:
        client.flushall()


@pytest.mark.parametrize("first", ["relay", "worker"])
async def test_a_tick_that_came_due_while_the_data_were_lost_runs_late(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey, first: str
) -> None:
    """Of all since the ledger saw one, the last tick is added beside the next one, however often that is said."""
    async with _without_loops(disposable_settings) as (system, keeper):
        (held,) = await system.engine.schedules(QUEUE, ["nightly"])
        late_ms = held.next_ms - 24 * 3_600_000  # no clock of this zone changes: a day before the next is the last
        long_ago = late_ms - 9 * 24 * 3_600_000
        await system.sql.execute("UPDATE homing.schedules SET next_ms = $1 WHERE schedule = 'nightly'", long_ago)
        _flush(disposable_valkey)
        if first == "worker":  # which starts a moment before a relay notices the loss
            await declare_schedules(system.ledger, system.engine, system.app.schedules)
        await keeper.restore(QUEUE)
        await keeper.restore(QUEUE)
        (trace,) = await system.engine.inspect(QUEUE, [TickId("nightly", late_ms).job_id])
        assert trace.name == "nightly"
        (nightly,) = await system.engine.schedules(QUEUE, ["nightly"])
        assert nightly.next_ms > _ms(datetime.now(UTC))
        known = await row(system, "nightly")
        assert known is not None
        assert (known["next_ms"], known["last_ms"]) == (nightly.next_ms, long_ago)


async def _is_kept(system: System) -> bool:
    assert system.relay is not None
    await system.relay.keeper.keep(QUEUE)
    kept = await system.sql.fetchval(
        "SELECT count(*) FROM homing.schedules WHERE source = 'engine' AND next_ms IS NOT NULL"
    )
    return bool(kept == 2)


async def test_what_others_make_change_and_remove_in_the_engine_is_followed(disposable_settings: Settings) -> None:
    """A schedule of Node's is written down, and again when it changes; it is dropped when whoever made it takes it away."""
    async with _without_loops(disposable_settings) as (system, keeper):
        await system.engine.upsert_schedules(QUEUE, [MADE_BY_NODE])
        await keeper.keep(QUEUE)
        first = await row(system, "theirs")
        assert first is not None
        assert (first["source"], first["cron"], first["data"], first["ticks"]) == ("engine", "0 4 * * *", '{"a":1}', 1)
        await system.engine.upsert_schedules(QUEUE, [replace(MADE_BY_NODE, cron="0 5 * * *")])
        await keeper.keep(QUEUE)
        second = await row(system, "theirs")
        assert second is not None
        assert second["cron"] == "0 5 * * *"
        await system.engine.remove_schedule(QUEUE, "theirs")
        await keeper.keep(QUEUE)
        assert await row(system, "theirs") is None


async def test_what_code_declares_and_what_is_paused_is_as_the_ledger_says(disposable_settings: Settings) -> None:
    """Somebody removes a schedule of the code in the engine, changes it, or sets a paused one: the next look puts it right."""
    async with _without_loops(disposable_settings) as (system, keeper):
        before = await system.engine.schedules(QUEUE, ["nightly"])
        await system.engine.remove_schedule(QUEUE, "nightly")
        await keeper.keep(QUEUE)
        assert await system.engine.schedules(QUEUE, ["nightly"]) == before
        await system.engine.upsert_schedules(QUEUE, [replace(before[0].schedule, cron="0 5 * * *")])
        await keeper.keep(QUEUE)
        assert await system.engine.schedules(QUEUE, ["nightly"]) == before
        await system.sql.execute("UPDATE homing.schedules SET paused_at = now() WHERE schedule = 'nightly'")
        await keeper.keep(QUEUE)
        await declare_schedules(system.ledger, system.engine, system.app.schedules)
        assert await system.engine.schedules(QUEUE, ["nightly"]) == []


async def test_what_was_written_down_and_never_told_the_engine_is_told(disposable_settings: Settings) -> None:
    """A worker wrote a change down and died: the next worker finds nothing new, and the first look of a relay does."""
    async with _without_loops(disposable_settings) as (system, keeper):
        await system.sql.execute("UPDATE homing.schedules SET cron = '0 6 * * *' WHERE schedule = 'nightly'")
        await keeper.keep(QUEUE)
        (held,) = await system.engine.schedules(QUEUE, ["nightly"])
        assert held.schedule.cron == "0 6 * * *"
        await declare_schedules(system.ledger, system.engine, system.app.schedules)
        (held,) = await system.engine.schedules(QUEUE, ["nightly"])
        assert held.schedule.cron == "0 3 * * *"


async def test_a_chain_that_broke_is_mended(disposable_settings: Settings) -> None:
    """Whoever claimed the tick died before it made the next one, and its job is gone: the look makes it."""
    async with _without_loops(disposable_settings) as (system, keeper):
        long_ago = _ms(datetime(2026, 1, 1, tzinfo=UTC))
        broken = replace(MADE_BY_NODE, id="broken", every_ms=60_000, cron=None, start_ms=None)
        await system.engine.upsert_schedules(QUEUE, [broken])
        claimed = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
        assert isinstance(claimed, ClaimedJob)
        while claimed.lease.job_id.startswith("repeat:hourly"):
            claimed = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
            assert isinstance(claimed, ClaimedJob)
        await system.engine.complete(claimed, "null", mark=None, keep=KeepRule(count=0), claim_next=None)
        await _let_time_pass(system, "broken", long_ago)
        await keeper.keep(QUEUE)  # which learns of it
        await keeper.keep(QUEUE)
        (held,) = await system.engine.schedules(QUEUE, ["broken"])
        assert held.next_ms > _ms(datetime.now(UTC))
        counts = await system.engine.counts(QUEUE)
        await keeper.keep(QUEUE)
        assert await system.engine.counts(QUEUE) == counts


async def _let_time_pass(system: System, name: str, since_ms: int) -> None:
    """Date the tick that a schedule holds back, as though nobody had looked for so long."""
    engine = system.engine
    assert isinstance(engine, RedisEngine)
    await engine._main.call("ZADD", engine._keys(QUEUE).repeat, since_ms, name)


async def test_a_worker_that_died_with_the_tick_costs_neither_the_tick_nor_the_next(
    settings_with_table: Settings,
) -> None:
    """It was claimed, and nothing came after that: another worker takes it up, makes the next one, and its effect counts once."""
    ticks: list[Tick] = []
    app = app_of(settings_with_table, ticks)
    async with running(app, settings_with_table, worker=False) as system:
        await declare_schedules(system.ledger, system.engine, app.schedules)
        lost = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 0.05))
        assert isinstance(lost, ClaimedJob)
        assert (await system.engine.counts(QUEUE)).delayed == 1  # the nightly one; nobody made the next hourly one
    async with running(app_of(settings_with_table, ticks), settings_with_table) as system:
        await until(lambda: ticks, what="another worker ran the tick")
        await until(lambda: _finished(system, lost.lease.job_id), what="its job is finished")
        assert await counted(system) == 1
        (hourly,) = await system.engine.schedules(QUEUE, ["hourly"])
        assert hourly.next_ms == round(ticks[0].due_at.timestamp() * 1000) + 3_600_000


async def test_a_tick_that_dies_can_be_redriven_and_keeps_its_time(settings_with_table: Settings) -> None:
    """Its letter says which tick it was; the chain goes on meanwhile; run again, it is the tick of the same time."""
    app, ticks = Homing("test"), list[Tick]()

    @app.queue(QUEUE).schedule("hourly", every=hours(1), at_least_once=True)
    async def fail_once(tick: Tick) -> None:
        ticks.append(tick)
        if len(ticks) == 1:
            raise PermanentError("no such table")

    async with running(app, settings_with_table) as system:
        (letter,) = await until(system.letters, what="the tick died")
        assert letter["job_id"].startswith("repeat:hourly:")
        assert len(await system.engine.due_times(QUEUE)) == 1
        await Redrive(system.ledger).redrive(letter["id"], Person("alice", "there is one now"))
        await until(lambda: len(ticks) == 2, what="it ran again")
        await system.settled()
    assert ticks[0] == ticks[1]


async def test_schedules_are_made_changed_and_removed_while_the_program_runs(settings_with_table: Settings) -> None:
    """By anybody, as often as they like: the job runs with its own data, and the ledger keeps the schedule."""
    app = Homing("test")
    reports, regions = app.queue(QUEUE), list[str]()

    @reports.handler("make-report", on=ReportAsked, at_least_once=True)
    async def make(event: ReportAsked) -> None:
        regions.append(event.region)

    async with running(app, settings_with_table) as system:
        assert system.relay is not None
        for changed in (True, False):
            assert await reports.upsert_schedule("tenant-7", make, ReportAsked(region="eu"), every=hours(1)) is changed
        await until(lambda: regions, what="its interval began")
        assert await reports.upsert_schedule("tenant-7", "make-report", ReportAsked(region="us"), every=hours(2))
        await until(lambda: len(regions) == 2, what="its new interval began")
        assert await reports.upsert_schedule("theirs", "of-node", {"a": 1}, cron="@daily", zone="Asia/Kolkata")
        await system.relay.keeper.keep(QUEUE)
        kept = await row(system, "tenant-7")
        assert kept is not None
        assert (kept["source"], kept["every_ms"]) == ("engine", 7_200_000)
        assert await reports.remove_schedule("tenant-7")
        assert not await reports.remove_schedule("tenant-7")
        for wrong, message in (
            (reports.upsert_schedule("x", "make-reprot", ReportAsked(region="eu"), every=hours(1)), "did you mean"),
            (
                reports.upsert_schedule("x", make, Tick(schedule="x", due_at=datetime.now(UTC)), every=hours(1)),
                "takes ReportAsked",
            ),
            (reports.upsert_schedule("x", make, ReportAsked(region="eu")), "say one of them"),
        ):
            with pytest.raises(EnqueueError, match=message):
                await wrong
        assert set(await system.engine.due_times(QUEUE)) == {"theirs"}
        await app.close()
    assert regions == ["eu", "us"]


class ReportAsked(Event, topic="test.report-asked", unrouted=True):
    region: str


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class _Quiet:
    """A system without loops: its schedules are declared, and the ledger knows the engine's data."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app = app_of(settings, [])

    async def __aenter__(self) -> tuple[System, Keeper]:
        self._running = running(self._app, self._settings, worker=False, relay=True)
        system = await self._running.__aenter__()
        assert system.relay is not None
        await system.relay.stop()
        await declare_schedules(system.ledger, system.engine, self._app.schedules)
        return system, Keeper(system.ledger, system.engine)

    async def __aexit__(self, *error: object) -> None:
        await self._running.__aexit__(None, None, None)


def _without_loops(settings: Settings) -> _Quiet:
    return _Quiet(settings)


async def test_what_nobody_can_read_is_in_nobodys_way(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """Hostile records in the engine and a pattern that only Node knows: they are left out or kept as they are, and the others are kept and come back."""
    async with _without_loops(disposable_settings) as (system, keeper):
        prefix = f"{disposable_settings.prefix or 'test'}:{QUEUE}:repeat"
        with Redis.from_url(disposable_valkey.url()) as client:
            client.zadd(prefix, {"none": 5, "inf": float("inf"), "zero": 1, b"\xff": 7, "legacy:a:::5": 3, "hash": 9})
            client.hset(f"{prefix}:inf", mapping={"name": "x", "pattern": "* * * * *", "startDate": "9" * 18})
            client.hset(f"{prefix}:zero", mapping={"name": "x", "every": "0", "data": "\0"})
            client.hset(f"{prefix}:hash", mapping={"name": "x", "pattern": "H 3 * * *", "ic": "many"})
        for _ in range(3):
            await keeper.keep(QUEUE)
        kept = await system.sql.fetch("SELECT schedule FROM homing.schedules ORDER BY schedule")
        assert [name for (name,) in map(tuple, kept)] == ["hash", "hourly", "nightly"]
        assert caplog.text.count("gets no next tick from us") == 1
        _flush(disposable_valkey)
        await keeper.restore(QUEUE)
        assert set(await system.engine.due_times(QUEUE)) == {"hourly", "nightly"}
