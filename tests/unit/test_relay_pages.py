"""The relay's pages: one is routed while the one before it is dispatched, and none is left behind."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger, Row
from homing.metrics import Metrics
from homing.relay.dispatch import Dispatcher
from homing.relay.relay import PAGES, Relay
from homing.relay.watch import QueueWatch
from homing.service import Progress

PAGE = 2


class World:
    """A ledger with some pages left, and an engine that takes them when it is told to."""

    def __init__(self, pages: Sequence[int], failing_at: int | None = None) -> None:
        self._pages = list(pages)
        self._failing_at = failing_at
        self.epochs = {"q": 1}
        self.clock_offset_seconds = 0.0
        self.routed = 0
        self.dispatched: list[int] = []
        self.routed_before: list[int] = []

    async def fetch(self, *_: object, **values: object) -> list[Row]:
        """The next page."""
        if self.routed == self._failing_at:
            raise ServerUnavailable("away")
        number = self.routed
        self.routed += 1
        row = {"parked_error": None, "page": number, "event_id": number, "topic": "t", "queue": "q", "due_seconds": 0.0}
        size = self._pages[number] if number < len(self._pages) else 0
        return cast("list[Row]", [row] * size)

    async def dispatch(self, rows: Iterable[Any]) -> list[Any]:
        """Note the page, one turn of the loop later."""
        taken = list(rows)
        pages = [row["page"] for row in taken]
        await asyncio.sleep(0)
        self.routed_before.append(self.routed)
        self.dispatched += pages
        return taken

    def relay(self) -> Relay:
        """A relay that believes it."""
        return Relay(
            cast("Ledger", self), cast("QueueWatch", self), cast("Dispatcher", self), page=PAGE, metrics=Metrics("t")
        )


async def test_the_next_page_is_routed_while_one_is_dispatched() -> None:
    """Full pages follow each other in one tick, the last one included, and dispatch lags by one page."""
    world = World([2, 2, 1])
    assert await world.relay().tick() is Progress.AGAIN
    assert world.dispatched == [0, 0, 1, 1, 2]
    assert world.routed == 3
    assert world.routed_before == [2, 3, 3]


async def test_one_tick_ends_although_pages_go_on() -> None:
    """However long the backlog, the loop turns."""
    world = World([2] * (3 * PAGES))
    assert await world.relay().tick() is Progress.AGAIN
    assert world.dispatched == [page for page in range(PAGES) for _ in range(PAGE)]


async def test_a_page_that_was_routed_is_dispatched_though_the_next_cannot_be_routed() -> None:
    """The ledger goes away between two pages: the first one's jobs are in the engine all the same."""
    world = World([2, 2], failing_at=1)
    with pytest.raises(ServerUnavailable):
        await world.relay().tick()
    assert world.dispatched == [0, 0]


async def test_nothing_is_asked_before_a_queue_is_verified() -> None:
    """Without an epoch there is nowhere to dispatch to."""
    world = World([2])
    world.epochs = {}
    assert await world.relay().tick() is Progress.REST
    assert world.routed == 0
