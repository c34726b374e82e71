"""Migrations on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import chain

import asyncpg
import psycopg
import pytest

from homing.errors import ConfigurationError, SchemaError
from homing.schema import check_schema, migrate, script, statements
from homing.schema.catalog import latest, migrations
from homing.schema.rights import grant

_SHAPE = """
SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
WHERE table_schema = 'homing' ORDER BY 1, 2"""
_ROLE = 'shop "app"'
_QUOTED = '"shop ""app"""'
_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'homing' ORDER BY 1"
_CHECKS = """
SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'homing'::regnamespace ORDER BY 1, 2"""


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database without Homing's tables."""
    connection = await asyncpg.connect(empty_database_url)
    yield connection
    await connection.close()


async def _shape(connection: asyncpg.Connection) -> list[list[asyncpg.Record]]:
    return [await connection.fetch(query) for query in (_SHAPE, _INDEXES, _CHECKS)]


async def test_applies_every_migration_and_names_the_ledger(connection: asyncpg.Connection) -> None:
    """After `migrate` the schema passes the check a worker makes at start."""
    applied = await migrate(connection, engine="redis")
    identity = await check_schema(connection, engine="redis")
    assert applied == [migration.title for migration in migrations()]
    assert (identity.version, identity.engine) == (latest(), "redis")


async def test_migrating_again_changes_nothing(connection: asyncpg.Connection) -> None:
    """A second `migrate` applies nothing and keeps the ledger's id."""
    await migrate(connection, engine="redis")
    before = await check_schema(connection, engine="redis")
    assert await migrate(connection, engine="redis") == []
    assert await check_schema(connection, engine="redis") == before


async def test_four_at_once_migrate_once(empty_database_url: str) -> None:
    """Of four callers at the same time exactly one applies each migration, and none fails."""
    async with AsyncExitStack() as stack:
        connections = [await asyncpg.connect(empty_database_url) for _ in range(4)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        applied = await asyncio.gather(*(migrate(connection, engine="redis") for connection in connections))
    assert sorted(chain.from_iterable(applied)) == [migration.title for migration in migrations()]


async def test_statements_build_the_same_schema(connection: asyncpg.Connection, database_url: str) -> None:
    """What Alembic would run, one statement at a time, makes the very tables that `migrate` makes."""
    for statement in statements():
        await connection.execute(statement)
    other = await asyncpg.connect(database_url)
    try:
        assert await _shape(connection) == await _shape(other)
    finally:
        await other.close()
    assert await migrate(connection, engine="redis") == []
    assert (await check_schema(connection, engine="redis")).engine == "redis"


async def test_script_is_all_or_nothing(connection: asyncpg.Connection) -> None:
    """The printed script makes a schema that passes the check; run a second time it fails and changes nothing."""
    await connection.execute(script())
    before = await check_schema(connection, engine="redis")
    with pytest.raises(asyncpg.DuplicateTableError):
        await connection.execute(script())
    await connection.execute("ROLLBACK")
    assert await check_schema(connection, engine="redis") == before


async def test_a_missing_schema_names_the_command(connection: asyncpg.Connection) -> None:
    """A database without Homing's tables is refused with the database's name and the command to type."""
    with pytest.raises(SchemaError, match=r"'t_\w+' has no Homing tables: run `homing migrate`"):
        await check_schema(connection, engine="redis")


async def test_an_older_schema_names_the_command(connection: asyncpg.Connection) -> None:
    """A schema that lacks the newest migration is refused with both versions and the command to type."""
    await migrate(connection, engine="redis")
    await connection.execute("DELETE FROM homing.migrations WHERE number > 1")
    with pytest.raises(SchemaError, match=rf"version 1, this code needs {latest()}: run `homing migrate`"):
        await check_schema(connection, engine="redis")


async def test_a_newer_schema_is_refused(connection: asyncpg.Connection) -> None:
    """Tables of a later version are refused by the check and by `migrate`: the older code must not touch them."""
    await migrate(connection, engine="redis")
    await connection.execute("INSERT INTO homing.migrations (number, name, sha256) VALUES (900, 'later', '')")
    with pytest.raises(SchemaError, match="version 900, this code knows"):
        await check_schema(connection, engine="redis")
    with pytest.raises(SchemaError, match="0900_later"):
        await migrate(connection, engine="redis")


async def test_an_edited_migration_is_refused(connection: asyncpg.Connection) -> None:
    """A migration whose text differs from the one that was applied is refused with both hashes."""
    await migrate(connection, engine="redis")
    await connection.execute("UPDATE homing.migrations SET sha256 = 'feedbeef' WHERE number = 1")
    with pytest.raises(SchemaError, match=r"0001_ledger was applied with sha256 feedbeef…, this code has \w{12}…"):
        await migrate(connection, engine="redis")


async def test_disagreeing_about_the_engine_is_refused(connection: asyncpg.Connection) -> None:
    """A process set to another engine than the ledger is told both names and the variables that decide."""
    await migrate(connection, engine="redis")
    with pytest.raises(SchemaError, match=r"disagree.*'postgres'.*HOMING_ENGINE.*REDIS_URL.*'redis'"):
        await check_schema(connection, engine="postgres")


async def test_an_unused_ledger_may_change_its_engine(connection: asyncpg.Connection) -> None:
    """Migrating once without REDIS_URL is no trap: while nothing was recorded, the next `migrate` decides."""
    await migrate(connection, engine="postgres")
    await migrate(connection, engine="redis")
    assert (await check_schema(connection, engine="redis")).engine == "redis"


async def test_a_used_ledger_keeps_its_engine(connection: asyncpg.Connection) -> None:
    """Once an event was recorded, `migrate` refuses another engine and leaves the row alone."""
    await migrate(connection, engine="redis")
    await connection.execute(
        "INSERT INTO homing.outbox_events (id, topic, payload) VALUES (gen_random_uuid(), 'order.placed', '{}')"
    )
    with pytest.raises(SchemaError, match="disagree"):
        await migrate(connection, engine="postgres")
    assert (await check_schema(connection, engine="redis")).engine == "redis"


async def test_a_version_that_does_not_exist_is_refused(connection: asyncpg.Connection) -> None:
    """`--to` beyond the newest migration, or below the first, is an error that names the possible ones."""
    for version in (0, latest() + 1):
        with pytest.raises(ConfigurationError, match=rf"{version} .*from 1 to {latest()}"):
            await migrate(connection, engine="redis", to=version)


async def test_a_granted_role_works_with_rows_and_not_with_tables(
    connection: asyncpg.Connection, empty_database_url: str
) -> None:
    """The role of a running application can check, record and settle, but neither alter tables nor rename the ledger."""
    await migrate(connection, engine="redis")
    await connection.execute(f"CREATE ROLE {_QUOTED} LOGIN PASSWORD 'secret'")
    try:
        with pytest.raises(SchemaError, match="--grant-to"):
            await _checked_as(_ROLE, empty_database_url)
        await grant(connection, _ROLE)
        await _checked_as(_ROLE, empty_database_url)
        for forbidden in ("CREATE TABLE homing.mine ()", "UPDATE homing.ledger SET engine = 'postgres'"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await _run_as(_ROLE, empty_database_url, forbidden)
        await _run_as(_ROLE, empty_database_url, "DELETE FROM homing.deliveries")
    finally:
        await connection.execute(f"DROP OWNED BY {_QUOTED}; DROP ROLE {_QUOTED}")


async def test_granting_to_a_role_that_does_not_exist_is_an_error(connection: asyncpg.Connection) -> None:
    """A misspelt role is refused by name."""
    await migrate(connection, engine="redis")
    with pytest.raises(ConfigurationError, match="--grant-to nobody_here: "):
        await grant(connection, "nobody_here")


async def test_a_held_table_ends_the_migration(connection: asyncpg.Connection, empty_database_url: str) -> None:
    """A migration does not queue behind a long transaction for ever: it gives up and says what to do."""
    await migrate(connection, engine="redis")
    with psycopg.connect(empty_database_url) as holder:
        holder.execute("LOCK TABLE homing.migrations IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SchemaError, match="end long transactions"):
            await migrate(connection, engine="redis", lock_timeout_seconds=0.05)


async def _checked_as(role: str, url: str) -> None:
    connection = await asyncpg.connect(url, user=role, password="secret")
    try:
        await check_schema(connection, engine="redis")
    finally:
        await connection.close()


async def _run_as(role: str, url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, user=role, password="secret")
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
