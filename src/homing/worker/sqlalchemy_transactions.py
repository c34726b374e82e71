"""Handler transactions on SQLAlchemy's `AsyncSession`, and on its `Session` for plain functions.

The session joins a transaction of ours on a connection of the application's own engine (`join_transaction_mode="rollback_only"`, so
that no savepoint costs two round trips a job). Its root transaction ends when we end it: a commit, rollback or close by the handler is
noticed by the session's own events, and from then on the session begins nothing any more. What goes around the session (a `COMMIT` as
text) is found by comparing transaction ids before the commit.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from sqlalchemy import (
    AsyncAdaptedQueuePool,
    Connection,
    Engine,
    QueuePool,
    RootTransaction,
    TextClause,
    event,
    text,
)
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    AsyncTransaction,
    async_sessionmaker,
)
from sqlalchemy.orm import Session, SessionTransaction, sessionmaker

from homing.app.handlers import Kind
from homing.app.resources import Provider
from homing.errors import HandlerEndedTransaction, RegistrationError
from homing.ledger.ledger import CALL_SECONDS
from homing.schema.statement import Statement
from homing.worker.breaking_off import break_off, driver_of
from homing.worker.deadlines import Deadlines

log = logging.getLogger("homing.worker")

E = TypeVar("E")

_WATCH = "homing"
"""Where a session keeps its watch, in its `info`."""

ENDED = "the handler ended the transaction: Homing commits it together with the delivery; use begin_nested() for a part"


class SessionTransactions:
    """Opens sessions of one factory inside transactions of ours."""

    def __init__(self, factory: async_sessionmaker[AsyncSession], engine: AsyncEngine) -> None:
        self._factory = factory
        self._engine = engine
        self._guarded = _guard(factory.class_.sync_session_class)
        self._deadlines = Deadlines()

    @property
    def connections(self) -> int | None:
        """How many connections the engine keeps open; `None` where its pool has no such number."""
        pool = self._engine.pool
        return pool.size() if isinstance(pool, AsyncAdaptedQueuePool) else None

    def open(self) -> AbstractAsyncContextManager["OpenTransaction"]:
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator["OpenTransaction"]:
        async with self._engine.connect() as connection:
            root = await connection.begin()
            session = self._factory(
                bind=connection, join_transaction_mode="rollback_only", sync_session_class=self._guarded
            )
            transaction = OpenTransaction(connection, root, session, self._deadlines)
            try:
                yield transaction
            finally:
                await transaction.release()


class OpenTransaction:
    """One open transaction, its session, and the watch over both.

    What we ask of the database is answered within `CALL_SECONDS`, or the connection is broken off beneath it: a commit or a rollback on a
    connection that fell silent would keep its slot for ever. What the handler asks is bounded by its own time.
    """

    def __init__(
        self, connection: AsyncConnection, root: AsyncTransaction, session: AsyncSession, deadlines: Deadlines
    ) -> None:
        self._connection = connection
        self._root = root
        self._deadlines = deadlines
        self._driver = driver_of(connection.sync_connection)
        self._ours = False
        self.ended: str | None = None
        self.session = session
        session.sync_session.info[_WATCH] = self

    async def fetch(self, statement: Statement, **values: object) -> dict[str, Any] | None:
        rows = await self.fetch_all(statement, **values)
        return rows[0] if rows else None

    async def fetch_all(self, statement: Statement, **values: object) -> list[dict[str, Any]]:
        """Our own statements need nothing of SQLAlchemy but its connection: where the driver is known, they go to it as they are."""
        self._deadlines.begin(self, CALL_SECONDS)
        try:
            if self._connection.dialect.driver == "asyncpg":
                result = await self._connection.exec_driver_sql(statement.numbered, statement.arguments(values))
            else:
                result = await self._connection.execute(_clause(statement), statement_values(statement, values))
        finally:
            self._deadlines.end(self, CALL_SECONDS)
        names = list(result.keys()) if result.returns_rows else []
        return [dict(zip(names, row, strict=True)) for row in result] if names else []

    async def flush(self) -> None:
        self._deadlines.begin(self, CALL_SECONDS)
        try:
            await self.session.flush()
        finally:
            self._deadlines.end(self, CALL_SECONDS)

    async def commit(self) -> None:
        self._ours = True
        self._deadlines.begin(self, CALL_SECONDS)
        try:
            await self._root.commit()
        finally:
            self._deadlines.end(self, CALL_SECONDS)

    async def release(self) -> None:
        """Close the session, and roll back what was not committed."""
        self._ours = True
        self._deadlines.begin(self, CALL_SECONDS)
        try:
            await self.session.close()
            if self._root.is_active:
                await self._root.rollback()
        finally:
            self._deadlines.end(self, CALL_SECONDS)

    def expire(self) -> None:
        """The database has not answered: whoever waits for it hears of a lost connection."""
        log.warning("a handler's transaction has had no answer for %g s: its connection is given up", CALL_SECONDS)
        break_off(self._driver)

    def note_end(self) -> None:
        """The session's root transaction ended; unless we ended it, the handler did."""
        if not self._ours:
            self.ended = ENDED


def _guard(session_class: type[Session]) -> type[Session]:
    """A subclass whose sessions report the end of their root transaction, and begin nothing once a handler ended it.

    The events are set on the class, once: setting them on every session costs a tenth of a job.
    """
    guarded = type(f"Guarded{session_class.__name__}", (session_class,), {})
    event.listen(guarded, "after_transaction_end", _on_end)
    event.listen(guarded, "after_begin", _on_begin)
    return guarded


def _on_end(session: Session, transaction: SessionTransaction) -> None:
    watch = session.info.get(_WATCH)
    if transaction.parent is None and watch is not None:
        watch.note_end()


def _on_begin(session: Session, *_: object) -> None:
    watch = session.info.get(_WATCH)
    if watch is not None and watch.ended is not None:
        raise HandlerEndedTransaction(watch.ended)


class ThreadSessionTransactions:
    """The same for plain functions, on a synchronous engine."""

    def __init__(self, factory: sessionmaker[Session], engine: Engine) -> None:
        self._factory = factory
        self._engine = engine
        self._guarded = _guard(factory.class_)

    @property
    def connections(self) -> int | None:
        """How many connections the engine keeps open; `None` where its pool has no such number."""
        pool = self._engine.pool
        return pool.size() if isinstance(pool, QueuePool) else None

    @contextmanager
    def open_in_thread(self) -> Iterator["OpenThreadTransaction"]:
        with self._engine.connect() as connection:
            root = connection.begin()
            options = self._factory.kw | {"bind": connection, "join_transaction_mode": "rollback_only"}
            transaction = OpenThreadTransaction(connection, root, self._guarded(**options))
            try:
                yield transaction
            finally:
                transaction.release()
                if root.is_active:
                    root.rollback()


class OpenThreadTransaction:
    """One open transaction of a thread, its session, and the watch over both."""

    def __init__(self, connection: Connection, root: RootTransaction, session: Session) -> None:
        self._connection = connection
        self._root = root
        self._driver = driver_of(connection)
        self._ours = self._asking = False
        self.ended: str | None = None
        self.session = session
        session.info[_WATCH] = self

    def fetch(self, statement: Statement, **values: object) -> dict[str, Any] | None:
        rows = self.fetch_all(statement, **values)
        return rows[0] if rows else None

    def fetch_all(self, statement: Statement, **values: object) -> list[dict[str, Any]]:
        with self._asks():
            result = self._connection.execute(_clause(statement), statement_values(statement, values))
            return [dict(row) for row in result.mappings()] if result.returns_rows else []

    def flush(self) -> None:
        with self._asks():
            self.session.flush()

    def commit(self) -> None:
        self._ours = True
        with self._asks():
            self._root.commit()

    def give_up(self) -> None:
        if self._asking:
            break_off(self._driver)

    @contextmanager
    def _asks(self) -> Iterator[None]:
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def release(self) -> None:
        """Close the session; the connection's transaction is the caller's to end."""
        self._ours = True
        self.session.close()

    def note_end(self) -> None:
        """The session's root transaction ended; unless we ended it, the handler did."""
        if not self._ours:
            self.ended = ENDED


def make_source(wanted: Any, kind: Kind, provider: Provider) -> SessionTransactions | ThreadSessionTransactions | None:
    """A source of `wanted` sessions made from a provided session factory that is bound to one engine of that kind."""
    if kind == "async":
        for factory in provider.instances(async_sessionmaker):
            if factory.class_ is wanted:
                return SessionTransactions(factory, _engine_of(factory.kw, AsyncEngine))
    if kind == "thread":
        for factory in provider.instances(sessionmaker):
            if issubclass(factory.class_, wanted):
                return ThreadSessionTransactions(factory, _engine_of(factory.kw, Engine))
    return None


def statement_values(statement: Statement, values: dict[str, object]) -> dict[str, object]:
    """The values by name, checked against the statement's parameters."""
    return dict(zip(statement.parameters, statement.arguments(values), strict=True))


_CLAUSES: dict[str, TextClause] = {}


def _clause(statement: Statement) -> TextClause:
    clause = _CLAUSES.get(statement.name)
    if clause is None:
        clause = _CLAUSES[statement.name] = text(statement.text)
    return clause


def _engine_of(options: Mapping[str, Any], kind: type[E]) -> E:
    engine = options.get("bind")
    if not isinstance(engine, kind):
        raise RegistrationError(
            f"the session factory for Transaction[...] is bound to {engine!r}: bind it to one {kind.__name__}, "
            "the ledger's database"
        )
    return engine
