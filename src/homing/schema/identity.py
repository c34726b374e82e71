"""Which ledger a connection leads to, and whether this code may work with it."""

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from homing.errors import SchemaError, UnsuitableServer
from homing.schema.catalog import latest
from homing.schema.statement import load

OLDEST_POSTGRES = 14


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """A ledger: its id, the engine that serves it, and the version of its tables."""

    ledger_id: UUID
    engine: str
    version: int


async def check_schema(connection: asyncpg.Connection, *, engine: str) -> LedgerIdentity:
    """Return the identity of the ledger in this database when this code can work with it; reads only.

    Raises `UnsuitableServer` for a PostgreSQL that is too old, and `SchemaError` when the tables are missing, older or newer
    than this code, or when they were set up for another engine than `engine`.
    """
    require_postgres(connection)
    try:
        identity = await _read(connection)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"this role may not use Homing's tables ({error}): run `homing migrate --grant-to ROLE` as their owner"
        ) from error
    if identity.version > latest():
        raise SchemaError(
            f"Homing's tables are at version {identity.version}, this code knows {latest()}: deploy the newer code"
        )
    if identity.version < latest():
        raise SchemaError(
            f"Homing's tables are at version {identity.version}, this code needs {latest()}: run `homing migrate`"
        )
    require_engine(identity.engine, engine)
    return identity


def require_postgres(connection: asyncpg.Connection) -> None:
    """Raise `UnsuitableServer` when the server is older than the oldest supported version."""
    require_postgres_version(connection.get_server_version().major)


def require_postgres_version(major: int) -> None:
    """The rule behind `require_postgres`, for a version number."""
    if major < OLDEST_POSTGRES:
        raise UnsuitableServer(
            f"the server is PostgreSQL {major}, Homing needs {OLDEST_POSTGRES} or newer: upgrade it, or point DATABASE_URL elsewhere"
        )


def require_engine(recorded: str, configured: str) -> None:
    """Raise `SchemaError` when this process is set to another engine than the ledger: their jobs would never meet."""
    if recorded != configured:
        raise SchemaError(
            f"two processes disagree about the engine: this one is set to {configured!r} (by HOMING_ENGINE, else by whether "
            f"REDIS_URL is set), the ledger was migrated for {recorded!r}: give every process the same REDIS_URL and HOMING_ENGINE"
        )


async def _read(connection: asyncpg.Connection) -> LedgerIdentity:
    place = await connection.fetchrow(load("homing.schema", "find_ledger").numbered)
    if place is None or not place["found"]:
        database = "?" if place is None else place["database"]
        raise SchemaError(
            f"the database {database!r} has no Homing tables: run `homing migrate` with this DATABASE_URL"
        )
    applied = await connection.fetch(load("homing.schema", "list_migrations").numbered)
    ledger = await connection.fetchrow(load("homing.schema", "read_ledger").numbered)
    if ledger is None or not applied:
        raise SchemaError(f"the ledger in database {place['database']!r} was never named: run `homing migrate`")
    return LedgerIdentity(ledger["ledger_id"], ledger["engine"], applied[-1]["number"])
