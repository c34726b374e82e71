"""Handler transactions on SQLAlchemy's `AsyncSession`.

The session joins a transaction of ours on a connection of the application's own engine (`join_transaction_mode="rollback_only"`, so
that no savepoint costs two round trips a job). Its root transaction ends when we end it: a commit, rollback or close by the handler is
noticed by the session's own events, and from then on the session begins nothing any more. What goes around the session (a `COMMIT` as
text) is found by comparing transaction ids before the commit.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from sqlalchemy import TextClause, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, SessionTransaction

from homing.app.resources import Provider
from homing.errors import HandlerEndedTransaction, RegistrationError
from homing.schema.statement import Statement

ENDED = "the handler ended the transaction: Homing commits it together with the delivery; use begin_nested() for a part"


class SessionTransactions:
    """Opens sessions of one factory inside transactions of ours."""

    def __init__(self, factory: async_sessionmaker[AsyncSession], engine: AsyncEngine) -> None:
        self._factory = factory
        self._engine = engine

    def open(self) -> AbstractAsyncContextManager["OpenTransaction"]:
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator["OpenTransaction"]:
        async with self._engine.connect() as connection:
            root = await connection.begin()
            transaction = OpenTransaction(connection, self._factory)
            try:
                yield transaction
            finally:
                await transaction.release()
                if root.is_active:
                    await root.rollback()


class OpenTransaction:
    """One open transaction, its session, and the watch over both."""

    def __init__(self, connection: AsyncConnection, factory: async_sessionmaker[AsyncSession]) -> None:
        self._connection = connection
        self._root = connection.get_transaction()
        self._ours = False
        self.ended: str | None = None
        self.session = factory(bind=connection, join_transaction_mode="rollback_only")
        event.listen(self.session.sync_session, "after_transaction_end", self._on_end)
        event.listen(self.session.sync_session, "after_begin", self._on_begin)

    async def fetch(self, statement: Statement, **values: object) -> dict[str, Any] | None:
        result = await self._connection.execute(_clause(statement), statement_values(statement, values))
        row = result.mappings().first() if result.returns_rows else None
        return None if row is None else dict(row)

    async def flush(self) -> None:
        await self.session.flush()

    async def commit(self) -> None:
        self._ours = True
        if self._root is not None:
            await self._root.commit()

    async def release(self) -> None:
        """Close the session; the connection's transaction is the caller's to end."""
        self._ours = True
        await self.session.close()

    def _on_end(self, _: Session, transaction: SessionTransaction) -> None:
        if transaction.parent is None and not self._ours:
            self.ended = ENDED

    def _on_begin(self, *_: object) -> None:
        if self.ended is not None:
            raise HandlerEndedTransaction(self.ended)


def make_source(wanted: Any, provider: Provider) -> SessionTransactions | None:
    """A source of `wanted` sessions made from a provided `async_sessionmaker` that is bound to one engine."""
    for factory in provider.instances(async_sessionmaker):
        if factory.class_ is wanted or factory.class_.sync_session_class is wanted:
            return SessionTransactions(factory, _engine_of(factory))
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


def _engine_of(factory: async_sessionmaker[AsyncSession]) -> AsyncEngine:
    engine = factory.kw.get("bind")
    if not isinstance(engine, AsyncEngine):
        raise RegistrationError(
            f"the async_sessionmaker for Transaction[...] is bound to {engine!r}: bind it to one AsyncEngine, "
            "the ledger's database"
        )
    if engine.sync_engine.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise RegistrationError("the engine for Transaction[...] is in AUTOCOMMIT: nothing would commit together")
    return engine
