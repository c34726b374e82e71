"""Backfill: a consumer that did not exist then gets the events that were routed without it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from homing.errors import Refused
from homing.harmless import clean_line
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger, Row
from homing.schema.statement import load
from homing.upkeep.batches import open_batch

_HERE = "homing.upkeep"
ROUTES = load(_HERE, "backfill_routes")
BACKFILL = load(_HERE, "backfill")

PAGE = 5_000
"""The most events that one statement looks at."""

MOST = 500
"""The most deliveries that one transaction opens."""

MOST_NAMED = 2_000
"""Characters of the names that a refusal lists."""

_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Which events: those of `topic` recorded from `since` (inclusive) to `until` (exclusive), for `consumer`."""

    topic: str
    consumer: str
    since: datetime
    until: datetime

    def as_json(self) -> dict[str, object]:
        """The subject of the action that is kept."""
        return {
            "topic": self.topic,
            "consumer": self.consumer,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
        }


class Backfill:
    """Goes over the outbox in the order of event ids, a transaction a batch.

    Each batch is committed with the action that says who opened how many deliveries and why. Killed or started twice it opens nothing
    twice: what has a delivery, under the consumer's name or a former one, is passed over. `rate` bounds the deliveries of one batch to
    about a second's worth; the caller waits between batches.
    """

    def __init__(self, ledger: Ledger, chosen: Range, *, rate: float | None = None, dry_run: bool = False) -> None:
        self._ledger = ledger
        self._range = chosen
        self._most = MOST if rate is None else max(1, min(MOST, int(rate)))
        self._dry_run = dry_run
        self._after = _FIRST
        self.opened = 0

    async def require_route(self) -> None:
        """Raise `Refused` unless the consumer is subscribed to the topic, by code that registered, and not retired."""
        routes = await self._ledger.fetch(ROUTES)
        topic, consumer = self._range.topic, self._range.consumer
        here = [row for row in routes if row["topic"] == topic]
        route = next((row for row in here if row["consumer"] == consumer), None)
        if route is not None and route["retired_at"] is not None:
            raise Refused(f"consumer {consumer!r} of topic {topic!r} was retired at {route['retired_at']}")
        if route is None:
            raise Refused(
                f"consumer {consumer!r} is not subscribed to topic {topic!r}: {_instead(topic, here, routes)}; a worker or relay "
                "subscribes what its code declares when it starts"
            )

    async def step(self, person: Person) -> int | None:
        """Open the next deliveries and return how many; `None` once there are no more events."""
        async with open_batch(self._ledger, dry_run=self._dry_run) as transaction:
            (batch,) = await transaction.fetch(
                BACKFILL,
                topic=self._range.topic,
                consumer=self._range.consumer,
                since=self._range.since,
                until=self._range.until,
                after=self._after,
                page=PAGE,
                most=self._most,
            )
            opened = int(batch["opened"])
            if opened and not self._dry_run:
                await keep_action(transaction, person, "backfill", self._range.as_json(), affected=opened)
        if not batch["seen"]:
            return None
        self._after = batch["last"]
        self.opened += opened
        return opened


def _instead(topic: str, here: Sequence[Row], routes: Sequence[Row]) -> str:
    """What could have been named."""
    if here:
        return f"its consumers are {_listed(row['consumer'] for row in here)}"
    topics = sorted({row["topic"] for row in routes})
    return f"nobody is subscribed to {topic!r}, only to {_listed(topics) or 'nothing at all'}"


def _listed(names: Iterable[str]) -> str:
    """Names as a terminal may show them: anybody may have written the rows."""
    return clean_line(", ".join(names), MOST_NAMED)
