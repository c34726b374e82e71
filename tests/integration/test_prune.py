"""Pruning takes what is old and finished, and nothing that anything still needs."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from homing.config.settings import Retention, Settings
from homing.deadletters import DeadLetters, Death, report_text
from homing.deadletters.deadletters import ADOPT
from homing.deadletters.redrive import Redrive, reopen
from homing.embedded import EmbeddedPostgres
from homing.errors import Refused, UnknownId
from homing.events import foreign_id
from homing.ids import first_id_at
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.service import Progress
from homing.upkeep import Prune, Pruned
from homing.upkeep.walks import JOB_CANDIDATES, Events, Jobs
from tests.own_servers import emptied, fresh_ledger
from tests.waiting import until

RETENTION = Retention(events=timedelta(days=30), inbox=timedelta(days=30), dead_letters=timedelta(days=90))

EVENT = """
INSERT INTO homing.outbox_events (id, topic, payload, published_at) VALUES ($1, 'test.old', '{}', now())
"""
DELIVERY = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)
VALUES ($1, $2, 'q', 'j', $5, $3::text, CASE WHEN $3::text IS NULL THEN NULL ELSE now() - make_interval(days => $4::int) END)
"""

LETTER = """
INSERT INTO homing.dead_letters
  (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made, failed_at, closed_at, closed_as)
VALUES ($1, CASE WHEN $3::int IS NULL THEN 'mail.send' ELSE 'mail.' || $3 END, 1, 'q', 'j', 'x', 'failed', '{}', '{}', 'f', 1,
  now() - make_interval(days => $2::int), now() - make_interval(days => $3::int), CASE WHEN $3::int IS NULL THEN NULL ELSE 'redriven' END)
RETURNING id
"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


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
    """A connection of the test's own."""
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    yield connection
    await connection.close()


async def old_event(sql: asyncpg.Connection, *deliveries: tuple[str, str | None, int]) -> UUID:
    """An event recorded forty days ago, with deliveries (consumer, outcome, days since settled)."""
    moment = await sql.fetchval("SELECT now() - interval '40 days'")
    event_id = UUID(int=first_id_at(moment).int + uuid4().int % 2**60)
    await sql.execute(EVENT, event_id)
    for consumer, outcome, days in deliveries:
        await sql.execute(DELIVERY, event_id, consumer, outcome, days, "outbox")
    return event_id


async def events(sql: asyncpg.Connection) -> set[UUID]:
    return {row["id"] for row in await sql.fetch("SELECT id FROM homing.outbox_events")}


async def adopted_event(sql: asyncpg.Connection, days: int = 35) -> UUID:
    """A job of another producer that was buried, and ran in the end."""
    event_id = foreign_id("q", secrets.token_hex(8), 0)
    await sql.execute(EVENT, event_id)
    await sql.execute(DELIVERY, event_id, "mail.send", "done", days, "job")
    return event_id


async def left(sql: asyncpg.Connection) -> tuple[int, ...]:
    """How many events, deliveries and letters there are."""
    tables = ("outbox_events", "deliveries", "dead_letters")
    return tuple([await sql.fetchval(f"SELECT count(*) FROM homing.{table}") for table in tables])  # noqa: S608 - our own words


async def prune(ledger: Ledger, page: int = 500) -> Prune:
    pruner = Prune(ledger, RETENTION, page=page)
    while await pruner.tick() is Progress.AGAIN:
        pass
    return pruner


async def test_old_settled_events_leave_with_their_deliveries(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """An event whose deliveries were all settled before the window is deleted together with them."""
    await old_event(sql, ("a", "done", 35), ("b", "cancelled", 33))
    pruner = await prune(ledger)
    assert await events(sql) == set()
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries") == 0
    assert pruner.pruned == Pruned(events=1, deliveries=2)


async def test_events_that_something_needs_stay(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Unsettled, young, unrouted, or dead with an open letter: each keeps its event."""
    pending = await old_event(sql, ("a", "done", 35), ("b", None, 0))
    recent = await old_event(sql, ("a", "done", 1))
    unrouted = await old_event(sql)
    await sql.execute("UPDATE homing.outbox_events SET published_at = NULL WHERE id = $1", unrouted)
    dead = await old_event(sql, ("a", None, 0))
    letter = await DeadLetters(ledger).bury(_death(dead))
    await sql.execute("UPDATE homing.deliveries SET settled_at = now() - interval '35 days' WHERE event_id = $1", dead)
    await prune(ledger)
    assert await events(sql) == {pending, recent, unrouted, dead}
    await sql.execute("UPDATE homing.dead_letters SET closed_at = now(), closed_as = 'dismissed' WHERE id = $1", letter)
    await prune(ledger)
    assert await events(sql) == {pending, recent, unrouted}


@pytest.mark.parametrize("origin", ["outbox", "job"])
async def test_delivery_opened_while_pruning_keeps_its_event(
    ledger: Ledger, sql: asyncpg.Connection, origin: str
) -> None:
    """Whoever opens a delivery holds the event FOR KEY SHARE: prune skips it, and finds the delivery the next time."""
    event_id = await (old_event(sql, ("a", "done", 35)) if origin == "outbox" else adopted_event(sql))
    async with sql.transaction():
        await sql.execute("SELECT FROM homing.outbox_events WHERE id = $1 FOR KEY SHARE", event_id)
        await sql.execute(DELIVERY, event_id, "late", None, 0, "outbox")
        async with asyncio.timeout(60):
            await prune(ledger)
    await prune(ledger)
    assert await events(sql) == {event_id}
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries") == 2


@pytest.mark.parametrize("how", ["retry in place", "redrive"])
async def test_whoever_comes_before_prune_keeps_the_event(ledger: Ledger, sql: asyncpg.Connection, how: str) -> None:
    """A delivery that is opened again while prune goes by keeps its event, its payload with it, and no letter is lost."""
    event_id = await adopted_event(sql)
    letter = await sql.fetchval(LETTER, event_id, 95, None)
    await sql.execute("UPDATE homing.deliveries SET outcome = 'dead'")
    async with ledger.transaction() as transaction:
        if how == "redrive":
            await reopen(transaction, letter, Person("alice@here", "fixed"))
        else:
            await transaction.fetch(ADOPT, event_id=event_id, consumer="mail.send", generation=1, letter=letter)
        assert (await prune(ledger)).pruned == Pruned()
    assert (await prune(ledger)).pruned == Pruned()
    row = await sql.fetchrow("SELECT outcome, generation FROM homing.deliveries")
    assert row is not None
    assert tuple(row) == (None, 2 if how == "redrive" else 1)
    assert await events(sql) == {event_id}


@pytest.mark.parametrize("how", ["retry in place", "redrive"])
async def test_whoever_comes_after_prune_finds_no_event(ledger: Ledger, sql: asyncpg.Connection, how: str) -> None:
    """A retry in place and a redrive that wait for prune's lock open nothing: event, delivery and letter have left as one."""
    event_id = await adopted_event(sql)
    letter = await sql.fetchval(LETTER, event_id, 95, None)
    await sql.execute("UPDATE homing.deliveries SET outcome = 'dead'")

    async def open_again() -> bool:
        if how == "retry in place":
            return await DeadLetters(ledger).adopt(event_id, "mail.send", 1, letter)
        with pytest.raises((Refused, UnknownId)):
            await Redrive(ledger).redrive(letter, Person("alice@here", "fixed"))
        return False

    async with ledger.transaction() as transaction:
        counts, _ = await Events(lambda: UUID(int=2**128 - 1)).step(transaction, RETENTION, 10)
        opening = asyncio.create_task(open_again())

        async def waits() -> bool:
            return bool(await sql.fetchval(WAITING))

        await until(waits, what="the other transaction waits for the event")
    assert not await opening
    assert counts == Pruned(events=1, inbox=1, lost=1)
    assert await left(sql) == (0, 0, 0)


async def test_a_job_buried_while_pruning_is_kept_whole(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """A burial that meets prune's lock on the inbox row finds it gone, and leaves an event, a dead delivery and a letter."""
    event_id = foreign_id("q", "17", 0)
    await sql.execute(DELIVERY, event_id, "a", "done", 35, "job")
    async with ledger.transaction() as transaction:
        counts, _ = await Jobs().step(transaction, RETENTION, 10)
        burying = asyncio.create_task(DeadLetters(ledger).bury(replace(_death(event_id), generation=None)))

        async def waits() -> bool:
            return bool(await sql.fetchval(WAITING))

        await until(waits, what="the burial waits for the row")
    assert await burying is not None
    assert counts == Pruned(inbox=1)
    await prune(ledger)
    assert await left(sql) == (1, 1, 1)


async def test_adopted_jobs_leave_whatever_their_id(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Events of jobs that no relay made leave by the age of their settling, in any place of the order of ids, and not before."""
    ids = [await adopted_event(sql, days) for days in (31, 40, 50, 29)]
    short = Prune(ledger, RETENTION.model_copy(update={"events": timedelta(days=1)}), page=2)
    while await short.tick() is Progress.AGAIN:
        pass
    assert short.pruned == Pruned(events=3, inbox=3)
    assert await events(sql) == {ids[3]}


async def test_letters_leave_by_their_own_age(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Closed letters stay for the window after they were closed; open ones as long as their event, and are counted as lost."""
    event_id = await old_event(sql, ("a", "done", 1))
    gone = uuid4()
    for owner, died, closed in (
        (event_id, 200, 91),
        (event_id, 200, 89),
        (event_id, 200, None),
        (gone, 91, None),
        (gone, 89, 88),
    ):
        await sql.execute(LETTER, owner, died, closed)
    assert (await prune(ledger, page=2)).pruned == Pruned(letters=1, lost=1)
    await sql.execute("UPDATE homing.deliveries SET settled_at = now() - interval '31 days'")
    assert (await prune(ledger)).pruned == Pruned(events=1, deliveries=1, lost=1)
    assert await sql.fetchval("SELECT count(*) FROM homing.dead_letters WHERE closed_at IS NULL") == 0


async def test_what_any_row_needs_stays(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Over random ledgers: an event leaves exactly when it is routed and every delivery and letter of it is past its window."""
    draw = random.Random(11)  # noqa: S311 - a seed, so that a failure can be seen again
    stays = set()
    for _ in range(150):
        event_id = await old_event(sql)
        needed = False
        for consumer in range(draw.randint(1, 3)):
            outcome, days, origin = (
                draw.choice([None, "done", "dead", "cancelled"]),
                draw.choice([1, 20, 35]),
                draw.choice(["outbox", "job"]),
            )
            await sql.execute(DELIVERY, event_id, str(consumer), outcome, days, origin)
            needed |= outcome is None or days < {"outbox": 30, "job": 15}[origin]
        died, closed = draw.choice([80, 100]), draw.choice([None, 1])
        await sql.execute(LETTER, event_id, died, closed)
        needed |= closed is None and died < 90
        if draw.random() < 0.2:
            await sql.execute("UPDATE homing.outbox_events SET published_at = NULL WHERE id = $1", event_id)
            needed = True
        if needed:
            stays.add(event_id)
    pruner = Prune(ledger, RETENTION.model_copy(update={"inbox": timedelta(days=15)}), page=20)
    while await pruner.tick() is Progress.AGAIN:
        pass
    assert await events(sql) == stays
    assert 20 < len(stays) < 140
    orphans = "SELECT count(*) FROM homing.deliveries WHERE event_id <> ALL($1::uuid[])"
    assert await sql.fetchval(orphans, list(stays)) == 0


async def test_the_inbox_is_found_by_age(sql: asyncpg.Connection) -> None:
    """Among many deliveries of ours, those of other producers cost what they are."""
    await sql.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)"
        " SELECT gen_random_uuid(), 'c', 'q', 'j', 'done', now() - interval '40 days' FROM generate_series(1, 3000)"
    )
    await sql.execute(DELIVERY, uuid4(), "a", "done", 35, "job")
    await sql.execute("ANALYZE homing.deliveries")
    first: dict[str, object] = {"settled_at": datetime(2000, 1, 1, tzinfo=UTC), "event_id": UUID(int=0), "consumer": ""}
    values = JOB_CANDIDATES.arguments(first | {"inbox_seconds": 1.0, "page": 500})
    plan = await sql.fetch("EXPLAIN " + JOB_CANDIDATES.numbered, *values)
    assert any("deliveries_inbox" in row[0] for row in plan)
    assert not any("Sort" in row[0] for row in plan)


async def test_jobs_forgotten_too_early_are_told_once(
    ledger: Ledger, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the engine keeps what the inbox forgets, and nobody declared it, the relay says so."""
    for _ in range(3):
        await sql.execute(DELIVERY, uuid4(), "a", "done", 35, "job")
    pruner = Prune(ledger, RETENTION, page=1, outliving={"q": "queue q keeps them for ever", "other": "no"})
    while await pruner.tick() is Progress.AGAIN:
        pass
    assert caplog.messages.count("queue q keeps them for ever") == 1
    assert "no" not in caplog.messages


async def test_silent_processes_are_forgotten(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """The row of a process that ended without a word leaves after a day; the living stay."""
    for hours in (1, 25):
        await sql.execute(
            "INSERT INTO homing.workers (id, host, pid, version, role, consumers, queues, seen_at)"
            " VALUES ($1, 'h', 1, '0', 'worker', '{}', '{}', now() - make_interval(hours => $2))",
            uuid4(),
            hours,
        )
    assert (await prune(ledger)).pruned == Pruned(workers=1)


async def test_a_dry_run_counts_and_keeps(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """The counts of a dry run are those of the run that follows it."""
    for _ in range(3):
        await old_event(sql, ("a", "done", 35))
    dry = Prune(ledger, RETENTION, page=2, dry_run=True)
    while await dry.tick() is Progress.AGAIN:
        pass
    assert len(await events(sql)) == 3
    assert dry.pruned == (await prune(ledger)).pruned == Pruned(events=3, deliveries=3)


async def test_batches_cover_everything(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """More events than one batch holds are all pruned, past those that stay."""
    await sql.execute(
        "INSERT INTO homing.outbox_events (id, topic, payload, published_at)"
        " SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'test.old', '{}', now()"
        " FROM generate_series(1, 1200) i"
    )
    kept = await old_event(sql, ("a", None, 0))
    await prune(ledger)
    assert await events(sql) == {kept}


async def test_inbox_of_other_producers_has_its_own_window(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """A settled job of another producer is forgotten after the inbox window, not before."""
    for consumer, days in (("old", 31), ("young", 29)):
        await sql.execute(DELIVERY, uuid4(), consumer, "done", days, "job")
    await prune(ledger)
    assert [row["consumer"] for row in await sql.fetch("SELECT consumer FROM homing.deliveries")] == ["young"]


def _death(event_id: UUID) -> Death:
    return Death(
        event_id=event_id,
        consumer="a",
        generation=1,
        queue="q",
        job_name="j",
        job_id="x",
        topic="test.old",
        kind="failed",
        data="{}",
        error=report_text("E", "why"),
        attempts_made=1,
    )
