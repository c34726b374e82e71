"""`once`: one transaction acts on a message, whatever connection it has, and however many copies arrive at once."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from homing import once
from homing.embedded import EmbeddedPostgres
from homing.errors import RecordError, TransactionRequiredError
from homing.outbox import expect_ledger
from homing.worker.classify import is_conflict
from tests.integration.record_kinds import KINDS, open_change
from tests.own_servers import emptied, fresh_ledger
from tests.waiting import until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def first(tx: Any, message: Any, consumer: str = "hooks.paid") -> bool:
    """Call `once` the way this kind of connection wants it."""
    answer: Any = once(tx, consumer, message)
    return bool(await answer if inspect.isawaitable(answer) else answer)


@pytest.fixture(scope="module")
def _ledger_url(postgres_server: EmbeddedPostgres) -> str:
    return fresh_ledger(postgres_server)


@pytest.fixture
def database_url(_ledger_url: str) -> str:
    """One ledger for the tests of this module, emptied before each."""
    return emptied(_ledger_url)


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_first_commit_counts(kind: str, database_url: str) -> None:
    """True until a transaction commits, for each consumer by itself; nothing of the caller's session is changed."""
    message = uuid4()
    async with open_change(kind, database_url) as change:
        await change.execute("SET lock_timeout = '7s'")
        assert await first(change.tx, message)
        assert not await first(change.tx, str(message))
        await change.rollback()
        assert await first(change.tx, message)
        assert await first(change.tx, message, "hooks.other")
        await change.commit()
        assert not await first(change.tx, message)
        await change.execute("DO $$ BEGIN ASSERT current_setting('lock_timeout') IN ('0', '7s'); END $$")
        await change.rollback()


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
async def test_two_at_once_are_one(sql: asyncpg.Connection, database_url: str, *, commits: bool) -> None:
    """The second transaction waits for the first one's end, and is the first exactly when that one was rolled back."""
    other = await asyncpg.connect(database_url)
    transaction, late = sql.transaction(), other.transaction()
    await transaction.start()
    await late.start()
    assert await once(sql, "hooks.paid", "evt_1")
    waiting = asyncio.create_task(first(other, "evt_1"))

    async def waits() -> bool:
        return bool(await sql.fetchval(WAITING))

    await until(waits, what="the second transaction waits")
    await (transaction.commit() if commits else transaction.rollback())
    assert await waiting is not commits
    await late.commit()
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries") == 1
    await other.close()


async def test_the_wait_is_bounded(sql: asyncpg.Connection, database_url: str) -> None:
    """A wait longer than the connection's lock_timeout is the driver's own error, and one that a handler is retried for."""
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool)
    async with sql.transaction(), engine.connect() as conn:
        assert await once(sql, "hooks.paid", "evt_1")
        await conn.exec_driver_sql("SET lock_timeout = '20ms'")
        with pytest.raises(Exception, match="lock timeout") as caught:
            await once(conn, "hooks.paid", "evt_1")
        assert is_conflict(caught.value)
    async with sql.transaction(), await psycopg.AsyncConnection.connect(database_url) as plain:
        assert await once(sql, "hooks.paid", "evt_2")
        await plain.execute("SET lock_timeout = '20ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable) as raw:
            await once(plain, "hooks.paid", "evt_2")
        assert is_conflict(raw.value)


async def test_a_connection_without_a_limit_gets_one(sql: asyncpg.Connection) -> None:
    """Where the connection sets no lock_timeout, the wait ends after ours, and what follows waits as before."""
    await sql.execute(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'limit %', current_setting('lock_timeout'); END $$;"
        "CREATE TRIGGER tell BEFORE INSERT ON homing.deliveries FOR EACH ROW EXECUTE FUNCTION tell()"
    )
    with pytest.raises(asyncpg.RaiseError, match="limit 10s"):
        async with sql.transaction():
            await once(sql, "hooks.paid", "evt_1")
    await sql.execute("DROP TRIGGER tell ON homing.deliveries")
    async with sql.transaction():
        await once(sql, "hooks.paid", "evt_1")
        assert await sql.fetchval("SELECT current_setting('lock_timeout')") == "0"


async def test_a_duplicate_in_a_stricter_transaction_is_a_conflict(sql: asyncpg.Connection, database_url: str) -> None:
    """Under REPEATABLE READ the copy that comes too late gets 40001, which means: all of it again."""
    other = await asyncpg.connect(database_url)
    late = other.transaction(isolation="repeatable_read")
    await late.start()
    await other.fetchval("SELECT 1")
    async with sql.transaction():
        assert await once(sql, "hooks.paid", "evt_1")
    with pytest.raises(asyncpg.SerializationError) as caught:
        await once(other, "hooks.paid", "evt_1")
    assert is_conflict(caught.value)
    await other.close()


async def test_what_cannot_count_is_refused(sql: asyncpg.Connection) -> None:
    """No transaction, another ledger, no name, no message, and an answer that nobody awaited: each is an error."""
    with pytest.raises(TransactionRequiredError, match="no open transaction"):
        await once(sql, "hooks.paid", "evt_1")
    async with sql.transaction():
        with expect_ledger(uuid4()), pytest.raises(RecordError, match="belongs to ledger"):
            await once(sql, "hooks.paid", "evt_1")
        for consumer, message in (("a b", "evt_1"), ("hooks", ""), ("hooks", 17)):
            with pytest.raises(RecordError, match=r"consumer name|message id"):
                await once(sql, consumer, message)  # type: ignore[arg-type]  # the error is the point
        with pytest.raises(TypeError, match="not awaited"):
            bool(once(sql, "hooks.paid", "evt_1"))
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries") == 0
