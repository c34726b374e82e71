"""Every kind of connection that `record` takes, behind one small interface, so that each property is written once."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import psycopg
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from homing import Event, record


class OrderPlaced(Event, topic="order.placed", aggregate="order_id"):
    """A small fact for these tests."""

    order_id: int
    note: str = ""


class Change(Protocol):
    """A connection with a transaction that has begun."""

    tx: Any

    async def execute(self, sql: str) -> None: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def record_in_lost_savepoint(self, *events: Event) -> None: ...
    async def close(self) -> None: ...


async def record_on(tx: Any, *events: Event) -> None:
    """Call `record` the way this kind of connection wants it."""
    outcome: Any = record(tx, *events)
    if inspect.isawaitable(outcome):
        await outcome


class AsyncAlchemy:
    def __init__(self, tx: AsyncSession | AsyncConnection) -> None:
        self.tx = tx

    async def execute(self, sql: str) -> None:
        await self.tx.execute(text(sql))

    async def commit(self) -> None:
        await self.tx.commit()

    async def rollback(self) -> None:
        await self.tx.rollback()

    async def record_in_lost_savepoint(self, *events: Event) -> None:
        savepoint = await self.tx.begin_nested()
        await record_on(self.tx, *events)
        await savepoint.rollback()

    async def close(self) -> None:
        await self.tx.close()


class SyncAlchemy:
    def __init__(self, tx: Session | Connection) -> None:
        self.tx = tx

    async def execute(self, sql: str) -> None:
        self.tx.execute(text(sql))

    async def commit(self) -> None:
        self.tx.commit()

    async def rollback(self) -> None:
        self.tx.rollback()

    async def record_in_lost_savepoint(self, *events: Event) -> None:
        savepoint = self.tx.begin_nested()
        await record_on(self.tx, *events)
        savepoint.rollback()

    async def close(self) -> None:
        self.tx.close()


class AsyncPsycopg:
    def __init__(self, tx: psycopg.AsyncConnection[Any]) -> None:
        self.tx = tx

    async def execute(self, sql: str) -> None:
        await self.tx.execute(sql.encode())

    async def commit(self) -> None:
        await self.tx.commit()

    async def rollback(self) -> None:
        await self.tx.rollback()

    async def record_in_lost_savepoint(self, *events: Event) -> None:
        async with self.tx.transaction(force_rollback=True):
            await record_on(self.tx, *events)

    async def close(self) -> None:
        await self.tx.close()


class SyncPsycopg:
    def __init__(self, tx: psycopg.Connection[Any]) -> None:
        self.tx = tx

    async def execute(self, sql: str) -> None:
        self.tx.execute(sql.encode())

    async def commit(self) -> None:
        self.tx.commit()

    async def rollback(self) -> None:
        self.tx.rollback()

    async def record_in_lost_savepoint(self, *events: Event) -> None:
        with self.tx.transaction(force_rollback=True):
            await record_on(self.tx, *events)

    async def close(self) -> None:
        self.tx.close()


class Asyncpg:
    """asyncpg has no `commit`: its transactions are objects, begun here and again after each end."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.transaction: Any = None

    async def begin(self) -> None:
        self.transaction = self.tx.transaction()
        await self.transaction.start()

    async def execute(self, sql: str) -> None:
        await self.tx.execute(sql)

    async def commit(self) -> None:
        await self.transaction.commit()
        await self.begin()

    async def rollback(self) -> None:
        await self.transaction.rollback()
        await self.begin()

    async def record_in_lost_savepoint(self, *events: Event) -> None:
        savepoint = self.tx.transaction()
        await savepoint.start()
        await record_on(self.tx, *events)
        await savepoint.rollback()

    async def close(self) -> None:
        await self.tx.close()


def with_driver(url: str, driver: str) -> str:
    """A URL as SQLAlchemy writes it."""
    return url.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def _async_session(url: str, driver: str) -> AsyncIterator[Change]:
    engine = create_async_engine(with_driver(url, driver))
    try:
        async with AsyncSession(engine) as session:
            yield AsyncAlchemy(session)
    finally:
        await engine.dispose()


@asynccontextmanager
async def _async_connection(url: str, driver: str) -> AsyncIterator[Change]:
    engine = create_async_engine(with_driver(url, driver))
    try:
        async with engine.connect() as conn:
            yield AsyncAlchemy(conn)
    finally:
        await engine.dispose()


@asynccontextmanager
async def _session(url: str, driver: str) -> AsyncIterator[Change]:
    engine = create_engine(with_driver(url, driver))
    try:
        with Session(engine) as session:
            yield SyncAlchemy(session)
    finally:
        engine.dispose()


@asynccontextmanager
async def _connection(url: str, driver: str) -> AsyncIterator[Change]:
    engine = create_engine(with_driver(url, driver))
    try:
        with engine.connect() as conn:
            yield SyncAlchemy(conn)
    finally:
        engine.dispose()


@asynccontextmanager
async def _async_psycopg(url: str, _driver: str) -> AsyncIterator[Change]:
    conn = await psycopg.AsyncConnection.connect(url)
    try:
        yield AsyncPsycopg(conn)
    finally:
        await conn.close()


@asynccontextmanager
async def _psycopg(url: str, _driver: str) -> AsyncIterator[Change]:
    conn = psycopg.connect(url)
    try:
        yield SyncPsycopg(conn)
    finally:
        conn.close()


@asynccontextmanager
async def _asyncpg(url: str, _driver: str) -> AsyncIterator[Change]:
    conn = await asyncpg.connect(url)
    try:
        change = Asyncpg(conn)
        await change.begin()
        yield change
    finally:
        await conn.close()


@asynccontextmanager
async def _asyncpg_pool(url: str, _driver: str) -> AsyncIterator[Change]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as conn:
        change = Asyncpg(conn)
        await change.begin()
        yield change
        await change.transaction.rollback()


_OPEN: dict[str, Callable[[str, str], AbstractAsyncContextManager[Change]]] = {
    "AsyncSession": _async_session,
    "AsyncConnection": _async_connection,
    "Session": _session,
    "Connection": _connection,
    "psycopg.AsyncConnection": _async_psycopg,
    "psycopg.Connection": _psycopg,
    "asyncpg.Connection": _asyncpg,
    "asyncpg.Pool": _asyncpg_pool,
}

KINDS = (
    "AsyncSession+asyncpg",
    "AsyncSession+psycopg",
    "AsyncConnection+asyncpg",
    "AsyncConnection+psycopg",
    "Session+psycopg",
    "Connection+psycopg",
    "psycopg.AsyncConnection",
    "psycopg.Connection",
    "asyncpg.Connection",
    "asyncpg.Pool",
)
"""Each kind of connection, with each driver that SQLAlchemy may use below it."""


def open_change(kind: str, url: str) -> AbstractAsyncContextManager[Change]:
    """Open a connection of this kind; nothing is committed unless the test does."""
    name, _, driver = kind.partition("+")
    return _OPEN[name](url, driver)


async def recorded_ids(url: str) -> list[UUID]:
    """The ids of the events that everybody can see, in the order of their insertion times."""
    conn = await asyncpg.connect(url)
    try:
        rows = await conn.fetch("SELECT id FROM homing.outbox_events ORDER BY created_at, id")
    finally:
        await conn.close()
    return [UUID(str(row["id"])) for row in rows]
