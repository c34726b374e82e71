"""A connection to the ledger's database for one short task, with the driver's errors in our words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from homing.config.urls import mask
from homing.errors import ConfigurationError, ServerUnavailable

_CONNECT_TIMEOUT_SECONDS = 10

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ConnectionDoesNotExistError,
)
_WRONG = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that is closed at the end of the block.

    Raises `ServerUnavailable` when nobody answers at the address, and `ConfigurationError` when the server refuses the user, the
    password or the database.
    """
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT_SECONDS)
    except _WRONG as error:
        raise ConfigurationError(f"PostgreSQL refuses {mask(dsn)}: {error}: correct DATABASE_URL") from error
    except _AWAY as error:
        reason = str(error) or type(error).__name__
        raise ServerUnavailable(
            f"PostgreSQL does not answer at {mask(dsn)} ({reason}): start it, or correct DATABASE_URL"
        ) from error
    try:
        yield connection
    finally:
        await connection.close()
