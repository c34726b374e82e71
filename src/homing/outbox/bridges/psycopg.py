"""Recording through psycopg 3, asynchronous and synchronous."""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from homing.errors import TransactionRequiredError
from homing.outbox.answer import confirm_ledger, is_ledger_missing, ledger_missing
from homing.outbox.bridges.bridge import Bridge
from homing.outbox.recording import Recording
from homing.schema import statement


async def record_on_async_connection(conn: psycopg.AsyncConnection[Any], recording: Recording) -> None:
    """Write in the transaction of `conn`, beginning it if psycopg has not done so yet."""
    _require_transaction(conn)
    try:
        async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
            await cursor.execute(_query(), recording.values())
            row = await cursor.fetchone()
    except psycopg.Error as error:
        if is_ledger_missing(error.sqlstate):
            raise ledger_missing(conn.info.dbname, error) from error
        raise
    _confirm(row, conn, recording)


def record_on_connection(conn: psycopg.Connection[Any], recording: Recording) -> None:
    """Write in the transaction of `conn`, beginning it if psycopg has not done so yet."""
    _require_transaction(conn)
    try:
        with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
            cursor.execute(_query(), recording.values())
            row = cursor.fetchone()
    except psycopg.Error as error:
        if is_ledger_missing(error.sqlstate):
            raise ledger_missing(conn.info.dbname, error) from error
        raise
    _confirm(row, conn, recording)


def _require_transaction(conn: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    if conn.closed:
        raise TransactionRequiredError("the psycopg connection is closed: record before the transaction ends")
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise TransactionRequiredError(
            "the psycopg connection is in autocommit and has no open transaction: "
            "wrap the change and its events in `conn.transaction()`"
        )


def _query() -> bytes:
    return statement.load("homing.outbox", "record").pyformat.encode()


def _confirm(
    row: tuple[Any, ...] | None, conn: psycopg.AsyncConnection[Any] | psycopg.Connection[Any], recording: Recording
) -> None:
    confirm_ledger(None if row is None else row[0], expected=recording.ledger, database=conn.info.dbname)


BRIDGES = (
    Bridge(kind=psycopg.AsyncConnection, write=record_on_async_connection, is_async=True),
    Bridge(kind=psycopg.Connection, write=record_on_connection, is_async=False),
)
