"""Writing through asyncpg: plain connections, and those borrowed from a pool."""

from typing import TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from homing.errors import TransactionRequiredError
from homing.outbox.answer import is_ledger_missing, ledger_missing
from homing.outbox.bridges.bridge import Bridge
from homing.outbox.work import Work

T = TypeVar("T")

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"


async def write_on_connection(conn: Connection, work: Work[T]) -> T:
    """Write in the transaction that is open on `conn`; without one, every statement would commit by itself."""
    _require_transaction(conn)
    database = _database_of(conn)
    try:
        row = await conn.fetchrow(work.statement.numbered, *work.statement.arguments(work.values()))
    except asyncpg.PostgresError as error:
        if is_ledger_missing(error.sqlstate):
            raise ledger_missing(database, error) from error
        raise
    return work.answer(None if row is None else tuple(row), database)


def _require_transaction(conn: Connection) -> None:
    try:
        closed, in_transaction = conn.is_closed(), conn.is_in_transaction()
    except asyncpg.InterfaceError as error:
        raise TransactionRequiredError(f"the asyncpg connection is out of use ({error})") from error
    if closed:
        raise TransactionRequiredError("the asyncpg connection is closed: call before the transaction ends")
    if not in_transaction:
        raise TransactionRequiredError(
            "the asyncpg connection has no open transaction: wrap the call and the change it belongs to in `async with conn.transaction():`"
        )


def _database_of(conn: Connection) -> str | None:
    parameters = getattr(conn, "_params", None)  # asyncpg has no public name for it; it is for an error's text only
    return getattr(parameters, "database", None)


BRIDGES = (
    Bridge(kind=asyncpg.Connection, write=write_on_connection, is_async=True),
    Bridge(kind=PoolConnectionProxy, write=write_on_connection, is_async=True),
)
