"""Writing through SQLAlchemy: sessions and connections, on any of its PostgreSQL drivers.

The asynchronous kinds run the synchronous code in SQLAlchemy's own greenlet, so there is one path. A session is asked for its
connection and never executes anything itself: executing would flush the caller's pending rows.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from homing.errors import RecordError, TransactionRequiredError
from homing.outbox.answer import is_ledger_missing, ledger_missing
from homing.outbox.bridges.bridge import Bridge
from homing.outbox.work import Work
from homing.schema.statement import Statement

T = TypeVar("T")

BindArguments = Mapping[str, Any]


def write_on_connection(conn: Connection, work: Work[T]) -> T:
    """Write in the transaction of `conn`, which SQLAlchemy begins by itself if there is none yet."""
    _require_transaction(conn)
    database = conn.engine.url.database
    try:
        # A connection may ask for server-side cursors by default; PostgreSQL allows none for a statement that writes.
        row = conn.execute(_query(work.statement), work.values(), execution_options={"stream_results": False}).first()
    except DBAPIError as error:
        if is_ledger_missing(_sqlstate(error)):
            raise ledger_missing(database, error.orig) from error
        raise
    return work.answer(row, database)


def write_in_session(session: Session, work: Work[T], bind_arguments: BindArguments | None = None) -> T:
    """Write on the session's connection, without flushing; `bind_arguments` choose among several, as SQLAlchemy has it."""
    return write_on_connection(session.connection(bind_arguments=_copied(bind_arguments)), work)


async def write_on_async_connection(conn: AsyncConnection, work: Work[T]) -> T:
    """As `write_on_connection`."""
    return await conn.run_sync(write_on_connection, work)


async def write_in_async_session(
    session: AsyncSession, work: Work[T], bind_arguments: BindArguments | None = None
) -> T:
    """As `write_in_session`."""
    return await session.run_sync(write_in_session, work, bind_arguments)


def write_in_scoped_session(
    scope: scoped_session[Session], work: Work[T], bind_arguments: BindArguments | None = None
) -> T:
    """Write in the session that is current in this scope."""
    return write_in_session(scope(), work, bind_arguments)


async def write_in_async_scoped_session(
    scope: async_scoped_session[AsyncSession], work: Work[T], bind_arguments: BindArguments | None = None
) -> T:
    """As `write_in_scoped_session`."""
    return await write_in_async_session(scope(), work, bind_arguments)


def _require_transaction(conn: Connection) -> None:
    if conn.closed:
        raise TransactionRequiredError("the SQLAlchemy connection is closed: call before the transaction ends")
    if conn.dialect.name != "postgresql":
        raise RecordError(f"the transaction is on {conn.dialect.name}: Homing writes in PostgreSQL only")
    driver = conn.connection.dbapi_connection
    # The driver is asked, because the option may have been set on the engine, on the connection, or behind SQLAlchemy's back.
    if driver is None or conn.dialect.detect_autocommit_setting(driver):
        raise TransactionRequiredError(
            "the SQLAlchemy connection has isolation level AUTOCOMMIT, so what is written would outlive a rollback: "
            "use an engine or connection without it"
        )


@cache
def _query(statement: Statement) -> TextClause:
    return text(statement.text)


def _copied(bind_arguments: BindArguments | None) -> dict[str, Any] | None:
    return None if bind_arguments is None else dict(bind_arguments)  # SQLAlchemy writes into what it is given


def _sqlstate(error: DBAPIError) -> str | None:
    for name in ("sqlstate", "pgcode"):  # psycopg 3 and asyncpg; psycopg 2
        state = getattr(error.orig, name, None)
        if isinstance(state, str):
            return state
    return None


BRIDGES = (
    Bridge(kind=AsyncSession, write=write_in_async_session, is_async=True, chooses_bind=True),
    Bridge(kind=AsyncConnection, write=write_on_async_connection, is_async=True),
    Bridge(kind=Session, write=write_in_session, is_async=False, chooses_bind=True),
    Bridge(kind=Connection, write=write_on_connection, is_async=False),
    Bridge(kind=async_scoped_session, write=write_in_async_scoped_session, is_async=True, chooses_bind=True),
    Bridge(kind=scoped_session, write=write_in_scoped_session, is_async=False, chooses_bind=True),
)
