"""The ledger and the engine for one task of a person."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from homing.config.settings import Settings
from homing.ledger.ledger import Ledger
from homing.queue.browse import SteeredEngine
from homing.queue.redis import RedisEngine


@asynccontextmanager
async def open_both(settings: Settings, prefix: str, verb: str) -> AsyncIterator[tuple[Ledger, SteeredEngine]]:
    """An open ledger, and an engine that connects when it is first asked, so that one that is away only fails what needs it.

    `prefix`: what keys start with where the settings name none, the name of the app.
    """
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or prefix)
    ledger = Ledger(settings.asyncpg_dsn, engine=settings.engine, application=f"homing {verb}", connections=2)
    await ledger.open()
    try:
        yield ledger, engine
    finally:
        await engine.close()
        await ledger.close()
