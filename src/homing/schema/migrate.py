"""Bring the tables of a database to the version of this code: each migration once, whoever else is at it."""

from collections.abc import Sequence

import asyncpg

from homing.errors import SchemaError
from homing.schema.catalog import Migration, latest, migrations, require_version
from homing.schema.identity import require_engine, require_postgres
from homing.schema.statement import load

_WAIT_FOR_OTHERS_SECONDS = 60.0


async def migrate(
    connection: asyncpg.Connection, *, engine: str, to: int | None = None, lock_timeout_seconds: float = 5
) -> list[str]:
    """Apply the missing migrations up to `to` (`None` = all), name the ledger, and return the names of those applied.

    Each migration commits by itself: after a crash the next call goes on where this one ended. Several callers at once
    wait for each other. A table that somebody else holds for `lock_timeout_seconds` ends it with a `SchemaError`; so does an
    applied migration whose text has changed since, a newer schema, and a ledger in use for another engine.
    """
    require_postgres(connection)
    to = require_version(to)
    applied: list[str] = []
    while (name := await _apply_next(connection, engine, to, lock_timeout_seconds)) is not None:
        applied.append(name)
    return applied


async def _apply_next(connection: asyncpg.Connection, engine: str, to: int, lock_timeout_seconds: float) -> str | None:
    """Apply one migration and return its name, or settle the ledger's engine and return `None`: one transaction."""
    try:
        async with connection.transaction():
            await _limit_waiting(connection, _WAIT_FOR_OTHERS_SECONDS)
            await _run(connection, "lock_migrations")
            await _limit_waiting(connection, lock_timeout_seconds)
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


async def _limit_waiting(connection: asyncpg.Connection, seconds: float) -> None:
    await _run(connection, "limit_waiting", f"{seconds * 1000:.0f}ms")


async def _run(connection: asyncpg.Connection, verb: str, *arguments: object) -> None:
    await connection.execute(load("homing.schema", verb).numbered, *arguments)
