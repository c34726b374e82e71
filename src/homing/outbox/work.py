"""One statement to run in a caller's transaction, and what its answer means: what `record` and `once` have in common."""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from homing.schema.statement import Statement

T_co = TypeVar("T_co", covariant=True)


class Work(Protocol[T_co]):
    """Decided and checked in full before any connection is looked at; a bridge runs it and hands the row to `answer`."""

    @property
    def statement(self) -> Statement:
        """What to run."""
        ...

    def values(self) -> dict[str, object]:
        """The statement's parameters by name."""
        ...

    def answer(self, row: Sequence[Any] | None, database: str | None) -> T_co:
        """Read the one row that came back, if any; raises when it came from no ledger or from another one than expected.

        `database` is for the error's text.
        """
        ...


class AsyncTransaction(Protocol):
    """What SQLAlchemy's `AsyncSession` and `AsyncConnection` and psycopg's `AsyncConnection` have in common."""

    def commit(self) -> Coroutine[Any, Any, None]: ...
    def rollback(self) -> Coroutine[Any, Any, None]: ...


class AsyncpgConnection(Protocol):
    """What asyncpg's connections and its pools' proxies have in common."""

    def is_in_transaction(self) -> bool: ...


class SyncTransaction(Protocol):
    """What SQLAlchemy's `Session` and `Connection` and psycopg's `Connection` have in common."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
