"""Recording through SQLAlchemy: sessions and connections, on any of its PostgreSQL drivers.

The asynchronous kinds run the synchronous code in SQLAlchemy's own greenlet, so there is one path. A session is asked for its
connection and never executes anything itself: executing would flush the caller's pending rows.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from homing.errors import RecordError, TransactionRequiredError
from homing.outbox.answer import confirm_ledger, is_ledger_missing, ledger_missing
from homing.outbox.bridges.bridge import Bridge
from homing.outbox.recording import Recording
from homing.schema import statement

BindArguments = Mapping[str, Any]


def record_on_connection(conn: Connection, recording: Recording) -> None:
    """Write in the transaction of `conn`, which SQLAlchemy begins by itself if there is none yet."""
    _require_transaction(conn)
    database = conn.engine.url.database
    try:
        # A connection may ask for server-side cursors by default; PostgreSQL allows none for a statement that writes.
        row = conn.execute(_query(), recording.values(), execution_options={"stream_results": False}).first()
    except DBAPIError as error:
        if is_ledger_missing(_sqlstate(error)):
            raise ledger_missing(database, error.orig) from error
        raise
    confirm_ledger(None if row is None else row[0], expected=recording.ledger, database=database)


def record_in_session(session: Session, recording: Recording, bind_arguments: BindArguments | None = None) -> None:
    """Write on the session's connection, without flushing; `bind_arguments` choose among several, as SQLAlchemy has it."""
    record_on_connection(session.connection(bind_arguments=_copied(bind_arguments)), recording)


async def record_on_async_connection(conn: AsyncConnection, recording: Recording) -> None:
    """As `record_on_connection`."""
    await conn.run_sync(record_on_connection, recording)


async def record_in_async_session(
    session: AsyncSession, recording: Recording, bind_arguments: BindArguments | None = None
) -> None:
    """As `record_in_session`."""
    await session.run_sync(record_in_session, recording, bind_arguments)


def record_in_scoped_session(
    scope: scoped_session[Session], recording: Recording, bind_arguments: BindArguments | None = None
) -> None:
    """Write in the session that is current in this scope."""
    record_in_session(scope(), recording, bind_arguments)


async def record_in_async_scoped_session(
    scope: async_scoped_session[AsyncSession], recording: Recording, bind_arguments: BindArguments | None = None
) -> None:
    """As `record_in_scoped_session`."""
    await record_in_async_session(scope(), recording, bind_arguments)


def _require_transaction(conn: Connection) -> None:
    if conn.closed:
        raise TransactionRequiredError("the SQLAlchemy connection is closed: record before the transaction ends")
    if conn.dialect.name != "postgresql":
        raise RecordError(f"the transaction is on {conn.dialect.name}: Homing records in PostgreSQL only")
    driver = conn.connection.dbapi_connection
    # The driver is asked, because the option may have been set on the engine, on the connection, or behind SQLAlchemy's back.
    if driver is None or conn.dialect.detect_autocommit_setting(driver):
        raise TransactionRequiredError(
            "the SQLAlchemy connection has isolation level AUTOCOMMIT, so the event would outlive a rollback: "
            "record on an engine or connection without it"
        )


@cache
def _query() -> TextClause:
    return text(statement.load("homing.outbox", "record").text)


def _copied(bind_arguments: BindArguments | None) -> dict[str, Any] | None:
    return None if bind_arguments is None else dict(bind_arguments)  # SQLAlchemy writes into what it is given


def _sqlstate(error: DBAPIError) -> str | None:
    for name in ("sqlstate", "pgcode"):  # psycopg 3 and asyncpg; psycopg 2
        state = getattr(error.orig, name, None)
        if isinstance(state, str):
            return state
    return None


BRIDGES = (
    Bridge(kind=AsyncSession, write=record_in_async_session, is_async=True, chooses_bind=True),
    Bridge(kind=AsyncConnection, write=record_on_async_connection, is_async=True),
    Bridge(kind=Session, write=record_in_session, is_async=False, chooses_bind=True),
    Bridge(kind=Connection, write=record_on_connection, is_async=False),
    Bridge(kind=async_scoped_session, write=record_in_async_scoped_session, is_async=True, chooses_bind=True),
    Bridge(kind=scoped_session, write=record_in_scoped_session, is_async=False, chooses_bind=True),
)
