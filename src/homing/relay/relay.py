"""The relay: claim events, commit, publish their jobs. Any number of relays run side by side."""

from homing.ledger.ledger import Ledger
from homing.relay.dispatch import Dispatcher
from homing.relay.watch import QueueWatch
from homing.schema.statement import load
from homing.service import Progress

ROUTE = load("homing.relay", "route")


class Relay:
    """Routes unpublished events to deliveries and hands these to the engine.

    A crash after the commit leaves deliveries without jobs; the look finds them. Events of topics that nobody subscribes to are
    never read here, so that they can neither starve the others nor keep the loop turning.
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
        await self._dispatcher.dispatch(rows)
        return Progress.AGAIN if rows else Progress.REST
