"""A consumer that came late gets what was routed without it: each event once, however often it is asked for."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from uuid import UUID

import asyncpg
import psycopg
import pytest

from homing import Event, Homing
from homing.cli.main import main
from homing.clock import SystemClock
from homing.config.settings import Retention, Settings
from homing.embedded import EmbeddedPostgres
from homing.errors import Refused
from homing.ids import new_event_id
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.upkeep import Backfill, Range
from homing.upkeep.walks import Events
from tests.own_servers import emptied, fresh_ledger
from tests.system import quick, running
from tests.waiting import until

SOMEBODY = Person("alice@here", "the new consumer")
SUBSCRIBE = """
INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode, aliases)
VALUES ('test.old', 'q.new', 'q', 'new', 'after', '{q.former}'), ('test.old', 'q.first', 'q', 'first', 'after', '{}')
"""
EVENTS = """
INSERT INTO homing.outbox_events (id, topic, payload, created_at, published_at)
SELECT id, $2, '{}', now() - make_interval(days => $3), now() FROM unnest($1::uuid[]) id
"""
OLD_EVENT = """
INSERT INTO homing.outbox_events (id, topic, payload, published_at)
VALUES ('00000000-0000-7000-8000-000000000000', 'test.old', '{}', now())
"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


class Paid(Event, topic="backfill.paid"):
    amount: int


@pytest.fixture(scope="module")
def _ledger_url(postgres_server: EmbeddedPostgres) -> str:
    return fresh_ledger(postgres_server)


@pytest.fixture
def database_url(_ledger_url: str) -> str:
    """One ledger for the tests of this module, emptied before each."""
    return emptied(_ledger_url)


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """An open ledger."""
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest.fixture
async def sql(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, on a ledger with two routes."""
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    await connection.execute(SUBSCRIBE)
    yield connection
    await connection.close()


async def events(sql: asyncpg.Connection, number: int, *, topic: str = "test.old", days: int = 1) -> list[UUID]:
    """Routed events, recorded some days ago."""
    ids = [new_event_id() for _ in range(number)]
    await sql.execute(EVENTS, ids, topic, days)
    return [UUID(str(event_id)) for event_id in ids]


def chosen(consumer: str = "q.new", topic: str = "test.old") -> Range:
    """The last week."""
    now = SystemClock().now()
    return Range(topic=topic, consumer=consumer, since=now - timedelta(days=7), until=now)


async def fill(backfill: Backfill) -> int:
    """Go on to the end."""
    while await backfill.step(SOMEBODY) is not None:
        pass
    return backfill.opened


async def owners(sql: asyncpg.Connection) -> set[UUID]:
    rows = await sql.fetch("SELECT event_id FROM homing.deliveries WHERE consumer = 'q.new'")
    return {row["event_id"] for row in rows}


async def test_a_late_consumer_runs_once_for_each_past_event(settings: Settings) -> None:
    """Events routed long ago are run by the new consumer, through the sweep alone; asked for twice, it is one run each."""
    runs: list[int] = []
    app = Homing("late")

    @app.queue("q").handler("second", on=Paid, at_least_once=True)
    async def second(event: Paid) -> None:
        runs.append(event.amount)

    async with running(app, quick(settings)) as system:
        await events(system.sql, 5, topic="backfill.paid")
        await system.sql.execute("UPDATE homing.outbox_events SET payload = '{\"amount\": 7}'")
        for expected in (5, 0):
            backfill = Backfill(system.ledger, chosen("q.second", "backfill.paid"))
            await backfill.require_route()
            assert await fill(backfill) == expected
        await system.settled(30)
    assert runs == [7] * 5


async def test_only_what_is_missing_in_the_range_is_opened(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Other topics, other times, unrouted events, buried jobs of others, and what has a delivery under the old or the new name are passed over."""
    wanted = await events(sql, 3)
    former, present, scheduled, adopted = await events(sql, 4)
    await events(sql, 2, topic="test.other")
    await events(sql, 2, days=8)
    await sql.execute("UPDATE homing.outbox_events SET published_at = NULL WHERE id = $1", scheduled)
    await sql.execute("UPDATE homing.outbox_events SET headers = '{\"raw\": true}' WHERE id = $1", adopted)
    for event_id, consumer in ((former, "q.former"), (present, "q.new"), (wanted[0], "q.first")):
        await sql.execute(
            "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name) VALUES ($1, $2, 'q', 'j')",
            event_id,
            consumer,
        )
    assert await fill(Backfill(ledger, chosen(), dry_run=True)) == 3
    assert await owners(sql) == {present}
    assert await fill(Backfill(ledger, chosen())) == 3
    assert await owners(sql) == {*wanted, present}
    row = await sql.fetchrow("SELECT * FROM homing.deliveries WHERE event_id = $1 AND consumer = 'q.new'", wanted[0])
    assert row is not None
    assert (row["queue"], row["job_name"], row["generation"], row["epoch"], row["outcome"]) == ("q", "new", 1, 0, None)


async def test_a_killed_backfill_goes_on_where_it_was(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Batches are whole: each is kept with the action behind it, and another run opens the rest and nothing twice."""
    wanted = await events(sql, 25)
    killed = Backfill(ledger, chosen(), rate=10)
    assert await killed.step(SOMEBODY) == 10
    first, second = Backfill(ledger, chosen(), rate=10), Backfill(ledger, chosen(), rate=10)
    assert sum(await asyncio.gather(fill(first), fill(second))) == 15
    assert await owners(sql) == set(wanted)
    actions = await sql.fetch("SELECT * FROM homing.operator_actions ORDER BY id")
    assert sum(action["affected"] for action in actions) == 25
    assert {(action["actor"], action["action"], action["reason"]) for action in actions} == {
        ("alice@here", "backfill", "the new consumer")
    }
    assert json.loads(actions[0]["subject"])["consumer"] == "q.new"


async def test_nothing_is_opened_of_an_event_that_prune_takes(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """A backfill that meets prune's lock waits, finds the event gone, and opens no delivery without a payload."""
    await events(sql, 1)
    async with ledger.transaction() as transaction:
        await Events(lambda: UUID(int=2**128 - 1)).step(transaction, Retention(), 10)
        filling = asyncio.create_task(fill(Backfill(ledger, chosen())))

        async def waits() -> bool:
            return bool(await sql.fetchval(WAITING))

        await until(waits, what="the backfill waits for prune")
    assert await filling == 0
    assert await owners(sql) == set()


async def test_a_consumer_without_a_route_is_refused(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Whoever is not subscribed, or was retired, gets nothing, and is told what there is."""
    await sql.execute("UPDATE homing.subscriptions SET retired_at = now() WHERE consumer = 'q.first'")
    for consumer, topic, told in (
        ("q.nobody", "test.old", "its consumers are q.first, q.new"),
        ("q.new", "test.none", "nobody is subscribed to 'test.none', only to test.old"),
        ("q.first", "test.old", "was retired at"),
    ):
        with pytest.raises(Refused, match=told):
            await Backfill(ledger, chosen(consumer, topic)).require_route()


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_logging_as_before")
def test_the_commands_ask_first(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`backfill` and `prune` count on a dry run, are refused where nobody can be asked, and do it with --yes."""
    monkeypatch.setenv("DATABASE_URL", settings.asyncpg_dsn)
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")

    def told(*arguments: str) -> tuple[int, dict[str, object]]:
        code = main(["--json", *arguments])
        return code, json.loads(capsys.readouterr().out or "{}")

    backfill = ("backfill", "--consumer", "q.new", "--topic", "test.old", "--since", "7d", "--why", "late")
    with psycopg.connect(settings.psycopg_dsn, autocommit=True) as sql:
        sql.execute(SUBSCRIBE.encode())
        sql.execute(OLD_EVENT.encode())
        assert told(*backfill, "--dry-run")[1].items() >= {"wanted": 1, "opened": 0}.items()
        assert told(*backfill) == (5, {})
        assert told(*backfill, "--yes")[1].items() >= {"opened": 1}.items()
        assert told(*backfill[:2], "q.none", *backfill[3:], "--yes") == (5, {})
        sql.execute("UPDATE homing.deliveries SET outcome = 'done', settled_at = now() - interval '40 days'")
        assert told("prune") == (5, {})
        for arguments in (("--dry-run",), ("--yes", "--batch", "1")):
            code, counts = told("prune", *arguments)
            assert (code, counts["events"], counts["deliveries"]) == (0, 1, 1)
        actions = sql.execute("SELECT action, affected FROM homing.operator_actions ORDER BY id").fetchall()
        left = sql.execute("SELECT count(*) FROM homing.outbox_events").fetchone()
    assert actions == [("backfill", 1), ("prune", 2)]
    assert left == (0,)
