"""The relay: claim events, commit, publish their jobs. Any number of relays run side by side."""

import logging

from homing.ledger.ledger import Ledger
from homing.relay.dispatch import Dispatcher
from homing.relay.watch import QueueWatch
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.relay")

ROUTE = load("homing.relay", "route")


class Relay:
    """Routes unpublished events to deliveries and hands these to the engine.

    A crash after the commit leaves deliveries without jobs; the look finds them. Events of topics that nobody subscribes to are
    never read here, so that they can neither starve the others nor keep the loop turning. Events of which no job can be made are parked
    with their error until a person releases them.
    """

    def __init__(self, ledger: Ledger, watch: QueueWatch, dispatcher: Dispatcher, *, page: int) -> None:
        self._ledger = ledger
        self._watch = watch
        self._dispatcher = dispatcher
        self._page = page

    async def tick(self) -> Progress:
        """Move one page of events per topic; `AGAIN` while there was something to move."""
        epochs = self._watch.epochs
        if not epochs:
            return Progress.REST
        rows = await self._ledger.fetch(ROUTE, page=self._page, queues=list(epochs), epochs=list(epochs.values()))
        for row in rows:
            if row["parked_error"] is not None:
                log.error("event %s of topic %s is parked: %s", row["event_id"], row["topic"], row["parked_error"])
        await self._dispatcher.dispatch(row for row in rows if row["parked_error"] is None)
        return Progress.AGAIN if rows else Progress.REST
