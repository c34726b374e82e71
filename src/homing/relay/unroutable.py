"""Events that nobody consumes: counted by topic and said, since no other number would show them."""

import logging

from homing.ledger.ledger import Ledger
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.relay")

UNROUTABLE = load("homing.relay", "unroutable")
MOST = 10_000


class Unroutable:
    """Keeps the number of unroutable events per topic; says when it changes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.topics: dict[str, int] = {}

    async def tick(self) -> Progress:
        """Count, and warn for every topic whose number changed."""
        rows = await self._ledger.fetch(UNROUTABLE, most=MOST)
        found = {row["topic"]: row["events"] for row in rows}
        for topic, events in found.items():
            if self.topics.get(topic) != events:
                log.warning(
                    "%d events of topic %s have no consumer: deploy the code that subscribes to it", events, topic
                )
        for topic in self.topics.keys() - found.keys():
            log.info("events of topic %s flow again", topic)
        self.topics = found
        return Progress.REST
