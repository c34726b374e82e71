"""Pruning: events leave together with their deliveries, in small batches, and never while something still needs them."""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from homing.clock import Clock, SystemClock
from homing.config.settings import Retention
from homing.ids import first_id_at
from homing.ledger.ledger import Ledger
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.upkeep")

_HERE = "homing.upkeep"
CANDIDATES = load(_HERE, "prune_candidates")
PRUNE = load(_HERE, "prune")
PRUNE_INBOX = load(_HERE, "prune_inbox")

PAGE = 500
_FIRST = UUID(int=0)


class Prune:
    """One `tick` takes one batch; a round over the whole table ends with `REST`, and the next one starts from the beginning."""

    def __init__(self, ledger: Ledger, retention: Retention, *, clock: Clock | None = None) -> None:
        self._ledger = ledger
        self._retention = retention
        self._clock = clock or SystemClock()
        self._after = _FIRST
        self.pruned = {"outbox_events": 0, "deliveries": 0}

    async def tick(self) -> Progress:
        """Prune a batch of events with their deliveries, and a batch of the inbox."""
        more_events = await self._prune_events()
        more_inbox = await self._prune_inbox()
        return Progress.AGAIN if more_events or more_inbox else Progress.REST

    async def _prune_events(self) -> bool:
        """Lock, then read again: whoever opened a delivery before the lock is seen, whoever comes after waits and finds no event."""
        async with self._ledger.transaction() as transaction:
            rows = await transaction.fetch(CANDIDATES, after=self._after, before=self._before(), page=PAGE)
            ids = [row["id"] for row in rows]
            (gone,) = await transaction.fetch(
                PRUNE,
                ids=ids,
                retention_seconds=self._retention.events.total_seconds(),
                letters_seconds=self._retention.dead_letters.total_seconds(),
            )
        self._count(gone["events"], gone["deliveries"])
        full = len(ids) == PAGE
        self._after = ids[-1] if full else _FIRST
        return full

    async def _prune_inbox(self) -> bool:
        (gone,) = await self._ledger.fetch(PRUNE_INBOX, inbox_seconds=self._retention.inbox.total_seconds(), page=PAGE)
        self._count(0, gone["deliveries"])
        return bool(gone["deliveries"] == PAGE)

    def _before(self) -> UUID:
        now: datetime = self._clock.now() + timedelta(seconds=self._ledger.clock_offset_seconds)
        return first_id_at(now - self._retention.events)

    def _count(self, events: int, deliveries: int) -> None:
        self.pruned["outbox_events"] += events
        self.pruned["deliveries"] += deliveries
        if events or deliveries:
            log.info("pruned %d events and %d deliveries", events, deliveries)
