"""Events go to the ledger of the running work, or nowhere; and the relay hears of them exactly when they are there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest

from homing.errors import RecordError, SchemaError
from homing.outbox import expect_ledger
from tests.integration.record_kinds import KINDS, Change, OrderPlaced, open_change, record_on, recorded_ids

CHANNEL = "homing_outbox"


async def ledger_of(url: str) -> UUID:
    """The id of the ledger in this database."""
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT ledger_id FROM homing.ledger").fetchone()
    assert row is not None
    return UUID(str(row[0]))


@pytest.mark.parametrize("kind", KINDS)
async def test_the_wrong_ledger_is_refused_and_named(kind: str, database_url: str) -> None:
    """Work of another ledger records nothing here, the text names both, and the transaction can go on."""
    here, elsewhere = await ledger_of(database_url), uuid4()
    refused, accepted = OrderPlaced(order_id=1), OrderPlaced(order_id=2)
    async with open_change(kind, database_url) as change:
        with expect_ledger(elsewhere), pytest.raises(RecordError) as caught:
            await record_on(change.tx, refused)
        with expect_ledger(here):
            await record_on(change.tx, accepted)
        await change.commit()
    assert str(elsewhere) in str(caught.value)
    assert str(here) in str(caught.value)
    assert await recorded_ids(database_url) == [accepted.event_id]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_database_without_a_ledger_is_named(kind: str, empty_database_url: str) -> None:
    """Without the schema the error names the database and the command that makes it."""
    name = empty_database_url.rpartition("/")[2]
    async with open_change(kind, empty_database_url) as change:
        with pytest.raises(SchemaError, match="homing migrate") as caught:
            await record_on(change.tx, OrderPlaced(order_id=1))
        await change.rollback()
    assert name in str(caught.value)


@pytest.mark.parametrize("kind", ["AsyncSession+asyncpg", "psycopg.Connection", "asyncpg.Connection"])
async def test_an_empty_ledger_is_no_ledger(kind: str, database_url: str) -> None:
    """Tables without the row that names the ledger are as good as none: nothing is recorded."""
    async with open_change(kind, database_url) as change:
        await change.execute("DELETE FROM homing.ledger")
        with pytest.raises(SchemaError, match="homing migrate"):
            await record_on(change.tx, OrderPlaced(order_id=1))
        await change.commit()
    assert await recorded_ids(database_url) == []


async def test_the_expected_ledger_ends_with_its_block(database_url: str) -> None:
    """Outside a worker's run any ledger will do, also after a run that failed."""
    placed = OrderPlaced(order_id=1)
    async with open_change("asyncpg.Connection", database_url) as change:
        with pytest.raises(RecordError), expect_ledger(uuid4()):
            await record_on(change.tx, placed)
        await record_on(change.tx, placed)
        await change.commit()
    assert await recorded_ids(database_url) == [placed.event_id]


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The payloads of the notifications that arrive on the outbox's channel."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    conn = await asyncpg.connect(url)
    await conn.add_listener(CHANNEL, lambda *arguments: heard.put_nowait(str(arguments[-1])))
    try:
        yield heard
    finally:
        await conn.close()


async def heard_until_now(url: str, heard: asyncio.Queue[str]) -> list[str]:
    """What was heard before a notification that is sent now: they arrive in the order of their commits."""
    conn = await asyncpg.connect(url)
    await conn.execute("SELECT pg_notify($1, 'now')", CHANNEL)
    await conn.close()
    found = []
    while (payload := await asyncio.wait_for(heard.get(), timeout=10)) != "now":
        found.append(payload)
    return found


async def fill(change: Change) -> None:
    """Record several times, with a savepoint between."""
    await record_on(change.tx, *(OrderPlaced(order_id=number) for number in range(5)))
    await change.record_in_lost_savepoint(OrderPlaced(order_id=5))
    await record_on(change.tx, OrderPlaced(order_id=6))


@pytest.mark.parametrize(
    "kind", ["AsyncSession+asyncpg", "Session+psycopg", "psycopg.AsyncConnection", "asyncpg.Connection"]
)
async def test_one_notification_per_committed_transaction(kind: str, database_url: str) -> None:
    """However much is recorded, a commit sends one empty notification, a rollback none, and nothing is sent before either."""
    async with listening(database_url) as heard, open_change(kind, database_url) as change:
        await fill(change)
        assert await heard_until_now(database_url, heard) == []
        await change.commit()
        assert await heard_until_now(database_url, heard) == [""]
        await fill(change)
        await change.rollback()
        assert await heard_until_now(database_url, heard) == []


async def test_nothing_new_wakes_nobody(database_url: str) -> None:
    """A commit that only recorded known events, or was refused by its ledger, sends no notification."""
    placed = OrderPlaced(order_id=1)
    async with open_change("asyncpg.Connection", database_url) as change:
        await record_on(change.tx, placed)
        await change.commit()
        async with listening(database_url) as heard:
            await record_on(change.tx, placed)
            with expect_ledger(uuid4()), pytest.raises(RecordError):
                await record_on(change.tx, OrderPlaced(order_id=2))
            await change.commit()
            assert await heard_until_now(database_url, heard) == []


async def test_two_transactions_that_record_the_same_event_leave_one(database_url: str) -> None:
    """The second waits for the first and then finds the event there already."""
    placed = OrderPlaced(order_id=1)
    async with open_change("asyncpg.Connection", database_url) as one, open_change("asyncpg.Pool", database_url) as two:
        await record_on(one.tx, placed)
        waiting = asyncio.create_task(record_on(two.tx, placed))
        await until_waiting(database_url)
        await one.commit()
        await asyncio.wait_for(waiting, timeout=10)
        await two.commit()
    assert await recorded_ids(database_url) == [placed.event_id]


async def until_waiting(url: str) -> None:
    """Return once some transaction of this database waits for a lock."""
    conn = await asyncpg.connect(url)
    sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    try:
        async with asyncio.timeout(10):
            while not await conn.fetchval(sql):
                pass  # each look is a round trip, which lets the other transaction run
    finally:
        await conn.close()
