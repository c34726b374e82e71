"""Waking the relay by LISTEN/NOTIFY. Polling is the net under it: where notifications do not arrive, work is only later."""

import asyncio
import logging
from collections.abc import Callable

import asyncpg

from homing.errors import ServerUnavailable
from homing.ledger.ledger import CALL_SECONDS, LEDGER, Ledger
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.relay")

CHANNEL = "homing_outbox"
PROBE_SECONDS = 2.0
PROBE = load("homing.relay", "probe")


class Listener:
    """Holds one connection that listens, and proves by a notification of its own that it hears.

    `hears` is false where a pooler or a cut connection swallows notifications: "polling only", which is said once and shown.
    """

    def __init__(self, dsn: str, ledger: Ledger, wake: Callable[[], None]) -> None:
        self._dsn = dsn
        self._ledger = ledger
        self._wake = wake
        self._heard = asyncio.Event()
        self._connection: asyncpg.Connection | None = None
        self.hears = False

    async def tick(self) -> Progress:
        """Connect where there is no connection, and probe it."""
        try:
            if self._connection is None or self._connection.is_closed():
                await self._connect()
            await self._probe()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            self._note(hears=False)
            await self.close()
            raise ServerUnavailable(f"listening failed: {error}", server=LEDGER) from error
        return Progress.REST

    async def close(self) -> None:
        """Close the listening connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _connect(self) -> None:
        self._connection = await asyncpg.connect(
            self._dsn,
            timeout=CALL_SECONDS,
            command_timeout=CALL_SECONDS,
            server_settings={"application_name": "homing listen"},
        )
        await self._connection.add_listener(CHANNEL, self._on_notify)

    async def _probe(self) -> None:
        self._heard.clear()
        await self._ledger.fetch(PROBE, channel=CHANNEL)
        try:
            await asyncio.wait_for(self._heard.wait(), PROBE_SECONDS)
        except TimeoutError:
            self._note(hears=False)
            await self.close()
        else:
            self._note(hears=True)

    def _on_notify(self, *_: object) -> None:
        self._heard.set()
        self._wake()

    def _note(self, *, hears: bool) -> None:
        if hears != self.hears:
            log.info("notifications arrive") if hears else log.warning(
                "notifications do not arrive (a pooler in the way?): polling only; set HOMING_LISTEN_DATABASE_URL"
            )
        self.hears = hears
