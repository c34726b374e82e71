"""`homing schedules` as people and programs use it, on real servers without any process."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import psycopg
import pytest

from homing import Homing, Tick
from homing.cli.exits import Exit
from homing.config.settings import Settings
from homing.durations import hours
from homing.events.envelope import foreign_id
from homing.ids import JobId
from homing.ledger.ledger import Ledger
from homing.operations.schedules import TickState, list_schedules
from homing.queue.redis import RedisEngine
from homing.queue.schedules import Schedule, TickId
from homing.relay import QueueWatch, register
from homing.scheduler import Keeper, declare_schedules
from tests.integration.commands import Commands

T = TypeVar("T")
Sql = psycopg.Connection[tuple[Any, ...]]
With = Callable[[Callable[[Ledger, RedisEngine], Awaitable[T]]], T]
LAST_MS = 1_770_000_000_000


@pytest.fixture
def sql(settings: Settings) -> Iterator[Sql]:
    with psycopg.connect(settings.psycopg_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def on(settings: Settings) -> Callable[..., Any]:
    """Runs something on the ledger and the engine."""

    async def run(task: Callable[[Ledger, RedisEngine], Awaitable[Any]]) -> Any:
        ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
        engine = RedisEngine(settings.redis_dsn, prefix=str(settings.prefix))
        await ledger.open()
        await engine.open()
        try:
            return await task(ledger, engine)
        finally:
            await engine.close()
            await ledger.close()

    return lambda task: asyncio.run(run(task))


@pytest.fixture
def declared(on: Callable[..., Any]) -> Homing:
    """Two schedules in code and one that Node made, written down and held."""
    app = Homing("test")
    maintenance = app.queue("maintenance")

    @maintenance.schedule("nightly", cron="0 3 * * *", zone="Europe/Paris", at_least_once=True)
    async def clean(tick: Tick) -> None: ...

    @maintenance.schedule("hourly", every=hours(1), at_least_once=True)
    async def count(tick: Tick) -> None: ...

    async def write(ledger: Ledger, engine: RedisEngine) -> None:
        await register(ledger, app.routes, app.queues)
        await QueueWatch(ledger, engine).tick()
        await declare_schedules(ledger, engine, app.schedules)
        await engine.upsert_schedules("maintenance", [Schedule(id="theirs", job_name="report", cron="0 4 * * *")])
        await Keeper(ledger, engine).keep("maintenance")

    on(write)
    return app


def test_schedules_are_listed_with_their_next_ticks(command: Commands, declared: Homing) -> None:
    """By name, with what is known of each; one of them in its own zone."""
    hourly, nightly, theirs = command("--json", "schedules", "list").json
    assert [one["schedule"] for one in (hourly, nightly, theirs)] == ["hourly", "nightly", "theirs"]
    assert (hourly["every_seconds"], hourly["ticks"], hourly["source"], hourly["held"]) == (3600, 1, "code", True)
    assert [len(one["next"]) for one in (hourly, nightly, theirs)] == [5, 5, 5]
    assert theirs["source"] == "engine"
    shown = command("schedules", "next", "nightly")
    assert shown.code == Exit.DONE
    assert shown.out.count("03:00:00 CE") == 5
    assert "0 3 * * * Europe/Paris" in command("schedules", "list").out
    assert command("--json", "schedules", "list", "--limit", "2").json == [hourly, nightly]


def test_run_pause_resume_and_remove_do_what_they_say_and_are_kept(
    command: Commands, declared: Homing, on: Callable[..., Any], sql: Sql
) -> None:
    """Each changes the engine and the ledger, refuses what makes no sense, and leaves who did it and why."""
    ran = command("--json", "schedules", "run", "nightly", "--why", "try it").json
    assert on(lambda ledger, engine: engine.inspect("maintenance", [JobId(ran["job"])]))[0].name == "nightly"
    assert command("schedules", "pause", "nightly", "--why", "quiet").code == Exit.DONE
    assert "is paused already" in command("schedules", "pause", "nightly").err
    assert set(on(lambda ledger, engine: engine.due_times("maintenance"))) == {"hourly", "theirs"}
    (paused,) = (one for one in command("--json", "schedules", "list").json if one["paused_at"])
    assert (paused["schedule"], paused["next"]) == ("nightly", [])
    sql.execute("UPDATE homing.schedules SET next_ms = %s WHERE schedule = 'nightly'", (LAST_MS,))
    assert command("schedules", "resume", "nightly").code == Exit.DONE
    left_out = on(lambda ledger, engine: engine.inspect("maintenance", [TickId("nightly", LAST_MS).job_id]))
    assert not left_out[0].exists
    assert "is not paused" in command("schedules", "resume", "nightly").err
    assert len(command("--json", "schedules", "list").json[1]["next"]) == 5
    assert command("schedules", "remove", "theirs").code == Exit.REFUSED
    assert command("schedules", "remove", "theirs", "--yes").code == Exit.DONE
    assert command("schedules", "next", "gone").code == Exit.NO_SUCH_ID
    assert set(on(lambda ledger, engine: engine.due_times("maintenance"))) == {"hourly", "nightly"}
    kept = sql.execute(
        "SELECT action, subject->>'schedule', reason FROM homing.operator_actions ORDER BY id"
    ).fetchall()
    assert kept == [
        ("run", "nightly", "try it"),
        ("pause", "nightly", "quiet"),
        ("resume", "nightly", None),
        ("remove", "theirs", None),
    ]


def test_what_code_does_not_have_any_more_is_orphaned_and_can_be_removed(
    command: Commands, declared: Homing, sql: Sql
) -> None:
    """A worker that started after the schedule was declared last serves its queue: its code has it no more."""
    sql.execute(
        "INSERT INTO homing.workers (id, host, pid, version, role, consumers, queues)"
        " VALUES (gen_random_uuid(), 'h', 1, '0', 'worker', '{}', '{maintenance}')"
    )
    sql.execute("UPDATE homing.schedules SET declared_at = clock_timestamp() WHERE schedule = 'hourly'")
    listed = {one["schedule"]: one["orphaned"] for one in command("--json", "schedules", "list").json}
    assert listed == {"hourly": False, "nightly": True, "theirs": False}
    assert "orphaned" in command("schedules", "list").out
    assert command("schedules", "remove", "nightly", "--yes").code == Exit.DONE
    refused = command("schedules", "remove", "hourly", "--yes")
    assert (refused.code, "pause it" in refused.err) == (Exit.REFUSED, True)


def test_the_outcome_of_the_last_tick_is_the_ledgers_word_or_the_engines(
    declared: Homing, on: Callable[..., Any], sql: Sql
) -> None:
    """Done in the inbox; else what the engine still knows of its job."""
    tick = TickId("nightly", LAST_MS)
    sql.execute("UPDATE homing.schedules SET last_ms = %s", (LAST_MS,))
    sql.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)"
        " VALUES (%s, 'maintenance.nightly', 'maintenance', 'nightly', 'job', 'done', now())",
        (foreign_id("maintenance", tick.job_id, 0),),
    )

    async def read(ledger: Ledger, engine: RedisEngine) -> Any:
        (theirs,) = await engine.schedules("maintenance", ["theirs"])
        await engine.add_run("maintenance", theirs.schedule, TickId("theirs", LAST_MS).job_id)
        return (await list_schedules(ledger, engine)).schedules

    hourly, nightly, theirs = on(read)
    assert [one.last.state for one in (hourly, nightly, theirs)] == [TickState.UNKNOWN, TickState.DONE, TickState.OPEN]
    assert nightly.last.due_at == datetime.fromtimestamp(LAST_MS / 1000, UTC)
