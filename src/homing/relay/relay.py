"""The relay: claim events, commit, publish their jobs. Any number of relays run side by side."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Coroutine, Sequence
from typing import Any

from homing.clock import Clock, SystemClock
from homing.ledger.ledger import Ledger, Row
from homing.metrics import Metrics, declared
from homing.relay.dispatch import Dispatcher
from homing.relay.watch import QueueWatch
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.relay")

ROUTE = load("homing.relay", "route")

PAGES = 10
"""The most pages that one tick moves: a loop must turn to be seen alive."""


class Relay:
    """Routes unpublished events to deliveries and hands these to the engine.

    A crash after the commit leaves deliveries without jobs; the look finds them. Events of topics that nobody subscribes to are
    never read here, so that they can neither starve the others nor keep the loop turning. Events of which no job can be made are parked
    with their error until a person releases them.
    """

    def __init__(
        self,
        ledger: Ledger,
        watch: QueueWatch,
        dispatcher: Dispatcher,
        *,
        page: int,
        metrics: Metrics,
        clock: Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._watch = watch
        self._dispatcher = dispatcher
        self._page = page
        self._metrics = metrics
        self._clock = clock or SystemClock()

    async def tick(self) -> Progress:
        """Move pages of events until one is not full, `PAGES` at most; `AGAIN` when there was something to move.

        While the jobs of one page go to the engine, the next page is routed: PostgreSQL and Redis work at the same time. A page that cannot
        be routed stops no dispatch; a dispatch that fails leaves its page, and the one routed meanwhile, to the look.
        """
        rows = await self._route()
        for _ in range(PAGES - 1):
            if len(rows) < self._page:
                break
            rows = await self._route_while(self._dispatch(rows))
        await self._dispatch(rows)
        return Progress.AGAIN if rows else Progress.REST

    async def _route_while(self, dispatching: Coroutine[Any, Any, None]) -> list[Row]:
        task = asyncio.create_task(dispatching)
        try:
            return await self._route()
        finally:
            await task

    async def _route(self) -> list[Row]:
        """One page of events per topic, each with its deliveries; nothing while no queue is verified."""
        epochs = self._watch.epochs
        if not epochs:
            return []
        rows = await self._ledger.fetch(ROUTE, page=self._page, queues=list(epochs), epochs=list(epochs.values()))
        self._count_events(rows)
        return rows

    async def _dispatch(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row["parked_error"] is not None:
                log.error("event %s of topic %s is parked: %s", row["event_id"], row["topic"], row["parked_error"])
        self._observe_lag(await self._dispatcher.dispatch(row for row in rows if row["parked_error"] is None))

    def _count_events(self, rows: Sequence[Row]) -> None:
        """Count by topic; an event has a row for each of its deliveries."""
        topics = {row["event_id"]: row["topic"] for row in rows if row["parked_error"] is None}
        for topic, events in Counter(topics.values()).items():
            self._metrics.count(declared.EVENTS_ROUTED, topic, by=events)

    def _observe_lag(self, rows: Sequence[Row]) -> None:
        """How long ago the events were recorded, or due, by the database's clock."""
        now_seconds = self._clock.now().timestamp() + self._ledger.clock_offset_seconds
        lags: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            lags[row["queue"]].append(max(0.0, now_seconds - row["due_seconds"]))
        for queue, seconds in lags.items():
            self._metrics.observe_all(declared.RELAY_LAG, queue, seconds=seconds)
