"""Bring the tables of a database to the version of this code: each migration once, whoever else is at it."""

from collections.abc import Sequence

import asyncpg

from homing.errors import SchemaError
from homing.schema.catalog import Migration, latest, migrations
from homing.schema.identity import require_engine, require_postgres
from homing.schema.statement import load

_WAIT_FOR_OTHERS = "SET LOCAL lock_timeout = '60s'"
_WAIT_FOR_TABLES = "SET LOCAL lock_timeout = '5s'"


async def migrate(connection: asyncpg.Connection, *, engine: str, to: int | None = None) -> list[str]:
    """Apply the missing migrations up to `to` (`None` = all), name the ledger, and return the names of those applied.

    Each migration commits by itself: after a crash the next call goes on where this one ended. Several callers at once
    wait for each other. A table that somebody else holds for more than 5 seconds ends it with a `SchemaError`; so does
    an applied migration whose text has changed since, a newer schema, and a ledger in use for another engine.
    """
    require_postgres(connection)
    applied: list[str] = []
    while (name := await _apply_next(connection, engine, latest() if to is None else to)) is not None:
        applied.append(name)
    return applied


async def _apply_next(connection: asyncpg.Connection, engine: str, to: int) -> str | None:
    """Apply one migration and return its name, or settle the ledger's engine and return `None`: one transaction."""
    try:
        async with connection.transaction():
            await _run(connection, "lock_migrations", waiting=_WAIT_FOR_OTHERS)
            await connection.execute(_WAIT_FOR_TABLES)
            missing = await _missing(connection, to)
            if missing:
                return await _apply(connection, missing[0])
            await _settle_engine(connection, engine)
            return None
    except asyncpg.LockNotAvailableError as error:
        raise SchemaError(
            f"somebody holds a lock that the migration needs ({error}): end long transactions, then run `homing migrate` again"
        ) from error


async def _missing(connection: asyncpg.Connection, to: int) -> Sequence[Migration]:
    if not await connection.fetchval(load("homing.schema", "find_schema").numbered):
        await _run(connection, "create_schema")
    await _run(connection, "create_migrations")
    rows = await connection.fetch(load("homing.schema", "list_migrations").numbered)
    known = {migration.number: migration for migration in migrations()}
    for row in rows:
        _compare(row, known)
    applied = {row["number"] for row in rows}
    return [known[number] for number in sorted(known.keys() - applied) if number <= to]


def _compare(row: asyncpg.Record, known: dict[int, Migration]) -> None:
    migration = known.get(row["number"])
    if migration is None:
        raise SchemaError(
            f"the database has migration {row['number']:04d}_{row['name']}, this code ends at {latest():04d}: use the newer code"
        )
    if migration.sha256 != row["sha256"]:
        raise SchemaError(
            f"migration {migration.title} was applied with sha256 {row['sha256'][:12]}…, this code has {migration.sha256[:12]}…: "
            "an applied migration must not be edited; restore its text and add a new one"
        )


async def _apply(connection: asyncpg.Connection, migration: Migration) -> str:
    await connection.execute(migration.text)
    await _run(connection, "mark_migrated", migration.number, migration.name, migration.sha256)
    return migration.title


async def _settle_engine(connection: asyncpg.Connection, engine: str) -> None:
    await _run(connection, "name_ledger", engine)
    await _run(connection, "change_engine", engine)
    ledger = await connection.fetchrow(load("homing.schema", "read_ledger").numbered)
    require_engine(ledger["engine"] if ledger else "", engine)


async def _run(connection: asyncpg.Connection, verb: str, *arguments: object, waiting: str | None = None) -> None:
    if waiting is not None:
        await connection.execute(waiting)
    await connection.execute(load("homing.schema", verb).numbered, *arguments)
