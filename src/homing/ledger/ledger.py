"""The connection to the ledger: a small pool of our own, apart from every handler's, and one boundary for its errors."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, cast
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from homing.errors import ConfigurationError, ServerUnavailable
from homing.ledger.connections import Connections
from homing.schema.identity import LedgerIdentity, check_schema
from homing.schema.statement import Statement

log = logging.getLogger("homing.ledger")

CALL_SECONDS = 15.0
"""The longest a statement of ours may take; one that takes longer is given up and tried again later."""

GIVING_UP_SECONDS = 1.0
"""How long the driver may take to give up a statement. It asks a server that is silent to cancel it, and would wait for the answer."""

LOCK_SECONDS = 10.0
"""The longest a statement of ours waits for a row that a handler's transaction holds."""

PLAN_SECONDS = 10
"""How long a plan of the server is used. One that was made while a table was nearly empty is a bad one soon after: a page of rows is read as a
whole, thousands of them by key. The server itself would notice only with its next ANALYZE, a minute or more later."""

AT_HAND = 4
"""Connections that are kept out of the pool between two statements: for one that reads and three that settle, as in a worker that is busy."""

LEDGER = "PostgreSQL"
"""The ledger's name among the servers that may be away."""

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that heard the server's last words and has not noticed its end yet
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,  # a full disk, no memory, no connection left
    asyncpg.PostgresSystemError,  # its disk does not read or write
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.QueryCanceledError,
)
_WRONG = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)


class Row(Protocol):
    """A row of a result, by column name; what asyncpg returns, and what a test may write as a dict."""

    def __getitem__(self, column: str, /) -> Any: ...


class Ledger:
    """Runs the ledger's statements, each in a transaction of its own, on PostgreSQL.

    A server that cannot be reached, is starting, stopping, read-only, or too busy with the rows in question raises `ServerUnavailable`;
    whether the statement took effect is then unknown, and every statement may be repeated.
    """

    def __init__(self, dsn: str, *, engine: str, application: str, connections: int = 4) -> None:
        self._dsn = dsn
        self._where = _address(dsn)
        self._engine = engine
        self._application = application
        self._connections = connections
        self._pool: Connections | None = None
        self._identity: LedgerIdentity | None = None
        self.clock_offset_seconds = 0.0

    async def open(self) -> None:
        """Connect, and check that this is a ledger that this code and this engine can work with.

        Raises `ServerUnavailable`, `SchemaError`, `UnsuitableServer`, or `ConfigurationError` for refused credentials.
        """
        try:
            pool = await asyncpg.create_pool(
                self._dsn,
                min_size=0,  # no connection is kept open for its own sake: the pool would tell every outage with a traceback
                max_size=self._connections,
                timeout=CALL_SECONDS,
                command_timeout=CALL_SECONDS,
                max_cached_statement_lifetime=PLAN_SECONDS,
                reset=_keep_session,
                server_settings={
                    "application_name": self._application,
                    "lock_timeout": f"{LOCK_SECONDS:g}s",
                    "timezone": "UTC",
                },
            )
            self._pool = Connections(pool, take_seconds=CALL_SECONDS, at_hand=AT_HAND)
            async with pool.acquire() as connection:
                # the pool's proxy does all that a connection does
                self._identity = await check_schema(cast("asyncpg.Connection", connection), engine=self._engine)
                database_now = await connection.fetchval("SELECT clock_timestamp()")
        except BaseException as error:
            await self._abandon()
            raise _translate(error, self._where) from error
        self.clock_offset_seconds = (database_now - datetime.now(UTC)).total_seconds()
        if abs(self.clock_offset_seconds) > 1:
            log.warning("the database's clock is %+.1f s from this machine's", self.clock_offset_seconds)

    async def close(self) -> None:
        """Close the connections; statements in flight are given a moment to end."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    @property
    def ledger_id(self) -> UUID:
        """Which ledger this is."""
        if self._identity is None:
            raise ServerUnavailable("the ledger is not open")
        return self._identity.ledger_id

    async def fetch(self, statement: Statement, **values: object) -> list[Row]:
        """Run one statement in a transaction of its own and return its rows."""
        arguments = statement.arguments(values)
        try:
            async with asyncio.timeout(CALL_SECONDS + GIVING_UP_SECONDS):
                return list(await self._open_pool().fetch(statement.numbered, *arguments))
        except Exception as error:
            raise _translate(error, self._where) from error

    async def fetch_row(self, statement: Statement, **values: object) -> Row | None:
        """Run a statement that gives at most one row."""
        rows = await self.fetch(statement, **values)
        return rows[0] if rows else None

    async def warm_up(self, connections: int, *calls: tuple[Statement, dict[str, object]]) -> None:
        """Open so many connections, and run these statements once on each: their first jobs would wait for both. No more than may be at hand."""
        statements = [(statement.numbered, statement.arguments(values)) for statement, values in calls]
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._open_pool().warm_up(min(connections, AT_HAND, self._connections), statements)
        except Exception as error:
            raise _translate(error, self._where) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["LedgerTransaction"]:
        """Several statements in one transaction of ours: committed at the end of the block, rolled back by an error."""
        try:
            pool = self._open_pool()
            connection = await pool.take()
            try:
                async with connection.transaction():
                    yield LedgerTransaction(connection)
            except BaseException:
                await pool.give_up(connection)
                raise
            await pool.give_back(connection)
        except Exception as error:
            translated = _translate(error, self._where)
            if translated is error:
                raise
            raise translated from error

    def _open_pool(self) -> Connections:
        if self._pool is None:
            raise ServerUnavailable("the ledger is not open")
        return self._pool

    async def _abandon(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None


class LedgerTransaction:
    """An open transaction on the ledger."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, statement: Statement, **values: object) -> list[Row]:
        """Run one statement in the transaction and return its rows."""
        return list(await self._connection.fetch(statement.numbered, *statement.arguments(values)))

    async def fetch_row(self, statement: Statement, **values: object) -> Row | None:
        """Run a statement that gives at most one row."""
        rows = await self.fetch(statement, **values)
        return rows[0] if rows else None


async def _keep_session(_: object) -> None:
    """Reset nothing between two statements: ours leave no session state, and a reset is a round trip."""


def _translate(error: BaseException, where: str) -> BaseException:
    if isinstance(error, _WRONG):
        return ConfigurationError(f"PostgreSQL at {where} refuses this DATABASE_URL: {error}")
    if isinstance(error, _AWAY):
        text = f"PostgreSQL at {where} does not answer: {str(error) or type(error).__name__}"
        return ServerUnavailable(text, server=LEDGER)
    return error


def _address(dsn: str) -> str:
    """Host, port and database of a URL, without its secret."""
    parts = urlsplit(dsn)
    return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
