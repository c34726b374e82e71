"""The transaction that a handler writes in: opened by Homing, settled first, committed last, guarded in between."""

import importlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast
from uuid import UUID

from homing.app.handlers import Handler
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


class SourceFactory(Protocol):
    """A bridge to one database library: makes a source of the sessions that the lifespan provides."""

    def make_source(self, wanted: Any, provider: Provider) -> TransactionSource | None:
        """A source of `wanted` sessions, or `None` when nothing provided here makes such sessions."""
        ...


_BRIDGES = {"sqlalchemy": "homing.worker.sqlalchemy_transactions"}


def find_sources(handlers: Iterable[Handler], provider: Provider) -> dict[Any, TransactionSource]:
    """A source for every type that handlers take as `Transaction[...]`; a `RegistrationError` for what nobody provides."""
    sources: dict[Any, TransactionSource] = {}
    for handler in handlers:
        parameter = handler.transaction
        if parameter is not None and parameter.type not in sources:
            source = _find_source(parameter.type, provider)
            if source is None:
                raise RegistrationError(
                    f"{handler.consumer} ({handler.location}) takes Transaction[{describe_type(parameter.type)}]: provide "
                    f"its session factory in the lifespan, such as an async_sessionmaker; it provides "
                    f"{', '.join(provider.offers) or 'nothing'}"
                )
            sources[parameter.type] = source
    return sources


async def check_sources(sources: Mapping[Any, TransactionSource], ledger_id: UUID) -> None:
    """Make sure that what handlers write commits together with their deliveries.

    Raises `SchemaError` when the transactions are in another database than the ledger's, `RegistrationError` when every
    statement commits by itself (AUTOCOMMIT), `ServerUnavailable` when their database does not answer.
    """
    for wanted, source in sources.items():
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


async def _look_twice(name: str, source: TransactionSource) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        async with source.open() as transaction:
            first = await transaction.fetch(FIND_TRANSACTION)
            second = await transaction.fetch(FIND_TRANSACTION)
    except Exception as error:
        if is_connection_error(error):
            raise ServerUnavailable(f"the database of {name} does not answer: {error}") from error
        raise SchemaError(
            f"{name} leads to a database without this ledger: point its engine at DATABASE_URL ({error})"
        ) from error
    if first is None or second is None:
        raise SchemaError(f"{name} leads to a ledger without a name: run `homing migrate`")
    return first, second


def is_connection_error(error: BaseException | None) -> bool:
    """Whether an error says that the other side went away, rather than that it refused."""
    while error is not None:
        if isinstance(error, OSError) or getattr(error, "connection_invalidated", False):
            return True
        sqlstate = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
        if isinstance(sqlstate, str) and (sqlstate.startswith("08") or sqlstate in ("57P01", "57P02", "57P03")):
            return True
        error = error.__cause__
    return False


def _find_source(wanted: Any, provider: Provider) -> TransactionSource | None:
    module = _BRIDGES.get(getattr(wanted, "__module__", "").partition(".")[0])
    for name in [module] if module else list(_BRIDGES.values()):
        bridge = cast("SourceFactory", importlib.import_module(name))
        source = bridge.make_source(wanted, provider)
        if source is not None:
            return source
    return None
