"""The ledger and the engine for a process that stays up while they come and go, such as one that serves pages."""

import asyncio

from homing.config.settings import Settings
from homing.errors import HomingError, ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.queue.browse import SteeredEngine
from homing.queue.redis import RedisEngine

CONNECTIONS = 8
"""Connections to PostgreSQL: pages ask several questions at once."""


class Servers:
    """Opens the ledger when it is first there; the engine connects when it is first asked. Neither has to be there at the start.

    `prefix`: what keys start with where the settings name none, the name of the app. `ledger` and `engine` raise nothing by themselves once
    they were open: an outage is the error of the question that meets it.
    """

    def __init__(self, settings: Settings, prefix: str, *, verb: str) -> None:
        self.engine: SteeredEngine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or prefix)
        self._dsn = settings.asyncpg_dsn
        self._engine_name = settings.engine
        self._application = f"homing {verb}"
        self._ledger: Ledger | None = None
        self._error: HomingError = ServerUnavailable("PostgreSQL was not asked yet")
        self._opening = asyncio.Lock()

    @property
    def ledger(self) -> Ledger:
        """The ledger, once it was open; raises why it is not."""
        if self._ledger is None:
            raise self._error
        return self._ledger

    async def open(self) -> Ledger:
        """Open the ledger unless it is; raises what keeps it closed: `ServerUnavailable`, `SchemaError`, `ConfigurationError`."""
        async with self._opening:
            if self._ledger is None:
                ledger = Ledger(
                    self._dsn, engine=self._engine_name, application=self._application, connections=CONNECTIONS
                )
                try:
                    await ledger.open()
                except HomingError as error:
                    self._error = error
                    raise
                self._ledger = ledger
            return self._ledger

    async def close(self) -> None:
        """Close both."""
        await self.engine.close()
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            await ledger.close()
