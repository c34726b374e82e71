"""The shop's way to PostgreSQL."""

import asyncpg
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from homing.errors import SchemaError, ServerUnavailable

CONNECT_TIMEOUT_SECONDS = 10.0
STATEMENT_TIMEOUT_SECONDS = 30.0

Sessions = async_sessionmaker[AsyncSession]

_MISSING = text("""
    SELECT name FROM unnest(ARRAY['shop.orders', 'shop.checkouts', 'homing.outbox_events']) AS name
    WHERE to_regclass(name) IS NULL ORDER BY name""")


def open_engine(url: URL | str) -> AsyncEngine:
    """An engine that has not connected yet; a statement that takes longer than 30 s is given up."""
    return create_async_engine(
        url, connect_args={"timeout": CONNECT_TIMEOUT_SECONDS, "command_timeout": STATEMENT_TIMEOUT_SECONDS}
    )


def sessions_of(engine: AsyncEngine) -> Sessions:
    """Sessions whose objects may be read after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)


async def check_tables(engine: AsyncEngine) -> None:
    """Make sure, before anybody places an order, that the database answers and has every table.

    Raises `ServerUnavailable` that names the server, or `SchemaError` that names the missing migration.
    """
    try:
        async with engine.connect() as connection:
            missing = list((await connection.execute(_MISSING)).scalars())
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, DBAPIError) as error:
        where = f"{engine.url.host}:{engine.url.port or 5432}/{engine.url.database}"
        raise ServerUnavailable(f"PostgreSQL at {where} does not serve us: {error}; check DATABASE_URL") from error
    if missing:
        raise SchemaError(
            f"database {engine.url.database!r} lacks {', '.join(missing)}: run `homing migrate` and `python -m shop.migrate`"
        )
