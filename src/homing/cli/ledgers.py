"""The ledger for one command: opened, used, closed; PostgreSQL alone is asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from homing.config.settings import Settings
from homing.ledger.ledger import Ledger


@asynccontextmanager
async def open_ledger(settings: Settings, verb: str, *, connections: int = 2) -> AsyncIterator[Ledger]:
    """The ledger that the settings name, by so many connections at most; errors as for every process, each with its exit code."""
    ledger = Ledger(settings.asyncpg_dsn, engine=settings.engine, application=f"homing {verb}", connections=connections)
    await ledger.open()
    try:
        yield ledger
    finally:
        await ledger.close()
