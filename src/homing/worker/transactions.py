"""The transaction that a handler writes in: opened by Homing, settled first, committed last, guarded in between."""

import asyncio
import importlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, cast, runtime_checkable
from uuid import UUID

from homing.app.handlers import Handler, Kind
from homing.app.resources import Provider, describe_type
from homing.errors import RegistrationError, SchemaError, ServerUnavailable
from homing.schema.statement import Statement, load

FIND_TRANSACTION = load("homing.worker", "find_transaction")


class HandlerTransaction(Protocol):
    """An open transaction, the session that the handler gets, and the means to settle in it."""

    session: Any

    @property
    def ended(self) -> str | None:
        """What the handler did to end the transaction through its session, or `None`."""
        ...

    async def fetch(self, statement: Statement, **values: object) -> dict[str, Any] | None:
        """Run one of Homing's statements in this transaction; its first row, if any."""
        ...

    async def fetch_all(self, statement: Statement, **values: object) -> list[dict[str, Any]]:
        """Run one of Homing's statements in this transaction; its rows."""
        ...

    async def flush(self) -> None:
        """Send what the session still holds, and refuse what the database refuses."""
        ...

    async def commit(self) -> None:
        """Commit; what the session still holds was flushed by the caller."""
        ...


class TransactionSource(Protocol):
    """Opens transactions of one kind of session."""

    @property
    def connections(self) -> int | None:
        """How many transactions can be open at once without connecting anew; `None` when that is not known."""
        ...

    def open(self) -> AbstractAsyncContextManager[HandlerTransaction]:
        """A transaction that is rolled back at the end of the block unless it was committed."""
        ...


class ThreadTransaction(Protocol):
    """The same for a plain function: every call blocks, and belongs to the thread that opened it; all but `give_up`."""

    session: Any

    @property
    def ended(self) -> str | None:
        """What the handler did to end the transaction through its session, or `None`."""
        ...

    def fetch(self, statement: Statement, **values: object) -> dict[str, Any] | None:
        """Run one of Homing's statements in this transaction; its first row, if any."""
        ...

    def fetch_all(self, statement: Statement, **values: object) -> list[dict[str, Any]]:
        """Run one of Homing's statements in this transaction; its rows."""
        ...

    def flush(self) -> None:
        """Send what the session still holds, and refuse what the database refuses."""
        ...

    def commit(self) -> None:
        """Commit; what the session still holds was flushed by the caller."""
        ...

    def give_up(self) -> None:
        """From any thread: if one of the calls above waits for its answer, let it fail as one whose connection is lost."""
        ...


@runtime_checkable
class ThreadTransactionSource(Protocol):
    """Opens transactions for plain functions."""

    @property
    def connections(self) -> int | None:
        """How many transactions can be open at once without connecting anew; `None` when that is not known."""
        ...

    def open_in_thread(self) -> AbstractContextManager[ThreadTransaction]:
        """A transaction that is rolled back at the end of the block unless it was committed."""
        ...


AnySource = TransactionSource | ThreadTransactionSource


class SourceFactory(Protocol):
    """A bridge to one database library: makes a source of the sessions that the lifespan provides."""

    def make_source(self, wanted: Any, kind: Kind, provider: Provider) -> AnySource | None:
        """A source of `wanted` sessions, or `None` when nothing provided here makes such sessions."""
        ...


_BRIDGES = {"sqlalchemy": "homing.worker.sqlalchemy_transactions"}


def find_sources(handlers: Iterable[Handler], provider: Provider) -> dict[tuple[Any, Kind], AnySource]:
    """A source for every type that handlers take as `Transaction[...]`; a `RegistrationError` for what nobody provides."""
    sources: dict[tuple[Any, Kind], AnySource] = {}
    for handler in handlers:
        parameter = handler.transaction
        if parameter is not None and (parameter.type, handler.kind) not in sources:
            source = _find_source(parameter.type, handler.kind, provider)
            if source is None:
                raise RegistrationError(
                    f"{handler.consumer} ({handler.location}) takes Transaction[{describe_type(parameter.type)}] and is "
                    f"{_DEFINED[handler.kind]}: provide a session factory of that kind in the lifespan "
                    f"({_FACTORY[handler.kind]}); it provides {', '.join(provider.offers) or 'nothing'}"
                )
            sources[parameter.type, handler.kind] = source
    return sources


_DEFINED: dict[Kind, str] = {"async": "async def", "thread": "a plain def", "process": "run in a child process"}
_FACTORY: dict[Kind, str] = {
    "async": "such as an async_sessionmaker on an AsyncEngine",
    "thread": "such as a sessionmaker on an Engine",
    "process": "there is none",
}


async def check_sources(sources: Mapping[tuple[Any, Kind], AnySource], ledger_id: UUID) -> None:
    """Make sure that what handlers write commits together with their deliveries.

    Raises `SchemaError` when the transactions are in another database than the ledger's, `RegistrationError` when every
    statement commits by itself (AUTOCOMMIT), `ServerUnavailable` when their database does not answer.
    """
    for (wanted, _), source in sources.items():
        name = f"Transaction[{describe_type(wanted)}]"
        first, second = await _look_twice(name, source)
        if first["ledger_id"] != ledger_id:
            raise SchemaError(
                f"{name} leads to the ledger {first['ledger_id']}, this process works with {ledger_id}: "
                "effect and delivery would not commit together; give both the same database"
            )
        if first["transaction_id"] != second["transaction_id"]:
            raise RegistrationError(
                f"{name} commits every statement by itself: take AUTOCOMMIT off its engine, or nothing commits together"
            )


async def _look_twice(name: str, source: AnySource) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        first, second = await _fetch_twice(source)
    except Exception as error:
        if is_connection_error(error):
            raise ServerUnavailable(f"the database of {name} does not answer: {error}") from error
        raise SchemaError(
            f"{name} leads to a database without this ledger: point its engine at DATABASE_URL ({error})"
        ) from error
    if first is None or second is None:
        raise SchemaError(f"{name} leads to a ledger without a name: run `homing migrate`")
    return first, second


async def _fetch_twice(source: AnySource) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if isinstance(source, ThreadTransactionSource):
        return await asyncio.to_thread(_fetch_twice_in_thread, source)
    async with source.open() as transaction:
        return await transaction.fetch(FIND_TRANSACTION), await transaction.fetch(FIND_TRANSACTION)


def _fetch_twice_in_thread(source: ThreadTransactionSource) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    with source.open_in_thread() as transaction:
        return transaction.fetch(FIND_TRANSACTION), transaction.fetch(FIND_TRANSACTION)


_CONNECTION_IS_INVALID = "8s2b"
"""SQLAlchemy's number for using a connection again that it has found to be lost: the second error says nothing else of it."""


def is_connection_error(error: BaseException | None) -> bool:
    """Whether an error says that the other side went away, rather than that it refused."""
    while error is not None:
        if isinstance(error, OSError) or getattr(error, "connection_invalidated", False):
            return True
        if getattr(error, "code", None) == _CONNECTION_IS_INVALID:
            return True
        sqlstate = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
        if isinstance(sqlstate, str) and (sqlstate.startswith("08") or sqlstate in ("57P01", "57P02", "57P03")):
            return True
        error = error.__cause__
    return False


def _find_source(wanted: Any, kind: Kind, provider: Provider) -> AnySource | None:
    module = _BRIDGES.get(getattr(wanted, "__module__", "").partition(".")[0])
    for name in [module] if module else list(_BRIDGES.values()):
        bridge = cast("SourceFactory", importlib.import_module(name))
        source = bridge.make_source(wanted, kind, provider)
        if source is not None:
            return source
    return None
