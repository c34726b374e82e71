"""What the database said about a statement of ours, and the errors that follow from it: the same for every driver."""

from uuid import UUID

from homing.errors import RecordError, SchemaError

_NO_LEDGER = frozenset({"42P01", "3F000", "42703"})  # no such table, no such schema, no such column


def is_ledger_missing(sqlstate: str | None) -> bool:
    """Whether the statement failed because the tables are not there, or not in the shape this code knows."""
    return sqlstate in _NO_LEDGER


def ledger_missing(database: str | None, detail: object) -> SchemaError:
    """The error for a database without a ledger."""
    return SchemaError(
        f"database {database or '(unnamed)'!r} has no ledger that this version of Homing can use ({detail}): "
        "run `homing migrate` on it, or use the application's own database"
    )


def confirm_ledger(found: str | None, *, expected: UUID | None, database: str | None) -> None:
    """Raise when the answer came from no ledger or from another one than expected; the statement wrote nothing then.

    The caller's transaction stays usable in both cases.
    """
    if found is None:
        raise ledger_missing(database, "table homing.ledger is empty")
    if expected is not None and UUID(found) != expected:
        raise RecordError(
            f"this work belongs to ledger {expected}, but the transaction is on ledger {found} "
            f"(database {database or '(unnamed)'!r}): use a connection to the worker's own database; nothing was written"
        )
