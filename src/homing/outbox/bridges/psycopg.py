"""Writing through psycopg 3, asynchronous and synchronous."""

from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from homing.errors import TransactionRequiredError
from homing.outbox.answer import is_ledger_missing, ledger_missing
from homing.outbox.bridges.bridge import Bridge
from homing.outbox.work import Work

T = TypeVar("T")


async def write_on_async_connection(conn: psycopg.AsyncConnection[Any], work: Work[T]) -> T:
    """Write in the transaction of `conn`, beginning it if psycopg has not done so yet."""
    _require_transaction(conn)
    try:
        async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
            await cursor.execute(_query(work), work.values())
            row = await cursor.fetchone()
    except psycopg.Error as error:
        if is_ledger_missing(error.sqlstate):
            raise ledger_missing(conn.info.dbname, error) from error
        raise
    return work.answer(row, conn.info.dbname)


def write_on_connection(conn: psycopg.Connection[Any], work: Work[T]) -> T:
    """Write in the transaction of `conn`, beginning it if psycopg has not done so yet."""
    _require_transaction(conn)
    try:
        with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
            cursor.execute(_query(work), work.values())
            row = cursor.fetchone()
    except psycopg.Error as error:
        if is_ledger_missing(error.sqlstate):
            raise ledger_missing(conn.info.dbname, error) from error
        raise
    return work.answer(row, conn.info.dbname)


def _require_transaction(conn: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    if conn.closed:
        raise TransactionRequiredError("the psycopg connection is closed: call before the transaction ends")
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise TransactionRequiredError(
            "the psycopg connection is in autocommit and has no open transaction: "
            "wrap the call and the change it belongs to in `conn.transaction()`"
        )


def _query(work: Work[object]) -> bytes:
    return work.statement.pyformat.encode()


BRIDGES = (
    Bridge(kind=psycopg.AsyncConnection, write=write_on_async_connection, is_async=True),
    Bridge(kind=psycopg.Connection, write=write_on_connection, is_async=False),
)
