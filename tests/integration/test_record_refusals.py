"""What `record` refuses, and what is left behind: nothing."""

from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from homing import record
from homing.errors import RecordError, TransactionRequiredError
from tests.integration.record_kinds import OrderPlaced, recorded_ids, with_driver

AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}
ENGINES: dict[str, dict[str, Any]] = {
    "on the engine": AUTOCOMMIT,
    "as an engine's execution option": {"execution_options": AUTOCOMMIT},
    "at the driver": {"connect_args": {"autocommit": True}},
}


@pytest.mark.parametrize("way", ENGINES)
async def test_autocommit_engines_are_refused(way: str, database_url: str) -> None:
    """A session or connection of an engine in AUTOCOMMIT is refused, wherever that was said."""
    engine = create_engine(with_driver(database_url, "psycopg"), **ENGINES[way])
    with Session(engine) as session, pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
        record(session, OrderPlaced(order_id=1))
    with engine.connect() as conn, pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
        record(conn, OrderPlaced(order_id=1))
    engine.dispose()
    assert await recorded_ids(database_url) == []


@pytest.mark.parametrize(
    ("driver", "way"),
    [("psycopg", way) for way in ENGINES]
    + [("asyncpg", "on the engine"), ("asyncpg", "as an engine's execution option")],
)
async def test_async_autocommit_engines_are_refused(driver: str, way: str, database_url: str) -> None:
    """The same for the asynchronous kinds, on both drivers."""
    engine = create_async_engine(with_driver(database_url, driver), **ENGINES[way])
    async with AsyncSession(engine) as session:
        with pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
            await record(session, OrderPlaced(order_id=1))
    async with engine.connect() as conn:
        with pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
            await record(conn, OrderPlaced(order_id=1))
    await engine.dispose()
    assert await recorded_ids(database_url) == []


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_autocommit_of_one_connection_is_refused(driver: str, database_url: str) -> None:
    """An execution option on the connection, or on the session's connection, is found as well; its neighbours still record."""
    engine = create_async_engine(with_driver(database_url, driver))
    async with engine.connect() as conn:
        changed = await conn.execution_options(**AUTOCOMMIT)
        with pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
            await record(changed, OrderPlaced(order_id=1))
    async with AsyncSession(engine) as session:
        changed = await session.connection(execution_options=AUTOCOMMIT)
        assert changed.in_transaction()
        with pytest.raises(TransactionRequiredError, match="AUTOCOMMIT"):
            await record(session, OrderPlaced(order_id=1))
    assert await recorded_ids(database_url) == []
    placed = OrderPlaced(order_id=2)
    async with AsyncSession(engine) as session, session.begin():
        await record(session, placed)
    await engine.dispose()
    assert await recorded_ids(database_url) == [placed.event_id]


async def test_asyncpg_outside_a_transaction_is_refused(database_url: str) -> None:
    """A plain asyncpg connection commits each statement by itself, so it needs an explicit transaction."""
    conn = await asyncpg.connect(database_url)
    with pytest.raises(TransactionRequiredError, match=r"conn\.transaction\(\)"):
        await record(conn, OrderPlaced(order_id=1))
    await conn.close()
    assert await recorded_ids(database_url) == []


async def test_psycopg_in_autocommit_and_idle_is_refused(database_url: str) -> None:
    """A psycopg connection in autocommit is refused while idle, and accepted inside `conn.transaction()`."""
    first, second = OrderPlaced(order_id=1), OrderPlaced(order_id=2)
    with psycopg.connect(database_url, autocommit=True) as conn:
        with pytest.raises(TransactionRequiredError, match="autocommit"):
            record(conn, OrderPlaced(order_id=0))
        with conn.transaction():
            record(conn, first)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as async_conn:
        with pytest.raises(TransactionRequiredError, match="autocommit"):
            await record(async_conn, OrderPlaced(order_id=0))
        async with async_conn.transaction():
            await record(async_conn, second)
    assert await recorded_ids(database_url) == [first.event_id, second.event_id]


async def test_closed_connections_are_refused(database_url: str) -> None:
    """A closed connection, or one that went back to its pool, is named as such."""
    engine, async_engine = (
        create_engine(with_driver(database_url, "psycopg")),
        create_async_engine(with_driver(database_url, "asyncpg")),
    )
    with engine.connect() as alchemy:
        pass
    async with async_engine.connect() as async_alchemy:
        pass
    with psycopg.connect(database_url) as plain:
        pass
    async with await psycopg.AsyncConnection.connect(database_url) as async_plain:
        pass
    fast = await asyncpg.connect(database_url)
    await fast.close()
    async with asyncpg.create_pool(database_url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as borrowed:
            pass
        with pytest.raises(TransactionRequiredError, match="out of use"):
            await record(borrowed, OrderPlaced(order_id=1))
    for conn in (alchemy, plain):
        with pytest.raises(TransactionRequiredError, match="closed"):
            record(conn, OrderPlaced(order_id=1))
    for async_conn in (async_alchemy, async_plain, fast):
        with pytest.raises(TransactionRequiredError, match="closed"):
            await record(async_conn, OrderPlaced(order_id=1))
    engine.dispose()
    await async_engine.dispose()
    assert await recorded_ids(database_url) == []


async def test_bind_arguments_are_for_sessions(database_url: str) -> None:
    """A connection has no other connection to choose from."""
    with psycopg.connect(database_url) as conn, pytest.raises(RecordError, match="bind_arguments"):
        record(conn, OrderPlaced(order_id=1), bind_arguments={})
    assert await recorded_ids(database_url) == []


def test_another_database_than_postgresql_is_refused() -> None:
    """A session on SQLite is told that Homing records in PostgreSQL."""
    engine = create_engine("sqlite://")
    with Session(engine) as session, pytest.raises(RecordError, match="sqlite"):
        record(session, OrderPlaced(order_id=1))
    engine.dispose()


async def test_an_engine_or_pool_is_not_a_transaction(database_url: str) -> None:
    """What only makes connections is refused by name, with the list of what is taken."""
    engine = create_async_engine(with_driver(database_url, "asyncpg"))
    makers: list[Any] = [engine, engine.sync_engine, asyncpg]
    for maker in makers:
        with pytest.raises(RecordError, match="cannot write through a"):
            record(maker, OrderPlaced(order_id=1))
    await engine.dispose()


async def test_the_async_form_refuses_at_the_call(database_url: str) -> None:
    """A payload that cannot travel is refused by the call itself, before there is anything to await."""
    engine = create_async_engine(with_driver(database_url, "asyncpg"))
    async with AsyncSession(engine) as session:
        outcome = None
        with pytest.raises(RecordError, match="NUL"):
            outcome = record(session, OrderPlaced(order_id=1, note="\x00"))
        assert outcome is None
        assert not session.in_transaction()
    await engine.dispose()


async def test_a_refusal_inside_the_transaction_leaves_it_usable(database_url: str) -> None:
    """After a refused payload the caller may go on in the same transaction."""
    placed = OrderPlaced(order_id=2)
    conn = await asyncpg.connect(database_url)
    async with conn.transaction():
        with pytest.raises(RecordError):
            await record(conn, placed, OrderPlaced(order_id=1, note="\x00"))
        await record(conn, placed)
    await conn.close()
    assert await recorded_ids(database_url) == [placed.event_id]
