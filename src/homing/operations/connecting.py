"""The ledger and the engine for one task of a person."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from homing.config.settings import Settings
from homing.ledger.ledger import Ledger
from homing.queue.browse import SteeredEngine
from homing.queue.redis import RedisEngine

T = TypeVar("T")

Task = Callable[[Ledger, SteeredEngine], Awaitable[T]]
"""What a person wants of the two, which are open meanwhile."""


def run_on_both(settings: Settings, prefix: str, verb: str, task: Task[T]) -> T:
    """Open both, run the task in an event loop of its own, and close them: for the command line."""

    async def run() -> T:
        async with open_both(settings, prefix, verb) as (ledger, engine):
            return await task(ledger, engine)

    return asyncio.run(run())


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
