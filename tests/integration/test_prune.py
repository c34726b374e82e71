"""Pruning takes what is old and finished, and nothing that anything still needs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from homing.config.settings import Retention, Settings
from homing.deadletters import DeadLetters, Death, report_text
from homing.ids import first_id_at
from homing.ledger.ledger import Ledger
from homing.service import Progress
from homing.upkeep import Prune

RETENTION = Retention(events=timedelta(days=30), inbox=timedelta(days=30), dead_letters=timedelta(days=90))

EVENT = """
INSERT INTO homing.outbox_events (id, topic, payload, published_at) VALUES ($1, 'test.old', '{}', now())
"""
DELIVERY = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)
VALUES ($1, $2, 'q', 'j', $5, $3::text, CASE WHEN $3::text IS NULL THEN NULL ELSE now() - make_interval(days => $4::int) END)
"""


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


async def prune(ledger: Ledger) -> Prune:
    pruner = Prune(ledger, RETENTION)
    while await pruner.tick() is Progress.AGAIN:
        pass
    return pruner


async def test_old_settled_events_leave_with_their_deliveries(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """An event whose deliveries were all settled before the window is deleted together with them."""
    await old_event(sql, ("a", "done", 35), ("b", "cancelled", 33))
    pruner = await prune(ledger)
    assert await events(sql) == set()
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries") == 0
    assert pruner.pruned == {"outbox_events": 1, "deliveries": 2}


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


async def test_delivery_opened_while_pruning_keeps_its_event(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Whoever opens a delivery holds the event FOR KEY SHARE: prune skips it, and finds the delivery the next time."""
    event_id = await old_event(sql, ("a", "done", 35))
    async with sql.transaction():
        await sql.execute("SELECT FROM homing.outbox_events WHERE id = $1 FOR KEY SHARE", event_id)
        await sql.execute(DELIVERY, event_id, "late", None, 0, "outbox")
        async with asyncio.timeout(5):
            await prune(ledger)
    await prune(ledger)
    assert await events(sql) == {event_id}


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
