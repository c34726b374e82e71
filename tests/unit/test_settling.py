"""Settling a group: what one row or the sheer size of all of them is refused for costs no other row."""

import json
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from homing.errors import ServerUnavailable
from homing.schema.statement import Statement
from homing.worker.settling import Settled, Settler


class Ledger:
    """Takes so many rows at once, and never the one whose result is `bad`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.written: list[str] = []

    async def fetch(self, _: Statement, *, rows: str) -> list[Any]:
        results = [row["result"] for row in json.loads(rows)]
        if len(results) > self.most or "bad" in results:
            raise ValueError(f"{len(results)} rows are refused")
        self.written += results
        return []


def settled(result: str) -> Settled:
    """A delivery that is done."""
    run = SimpleNamespace(event_id=UUID(int=1), consumer="mail.send", generation=1)
    return Settled(cast("Any", run), result)


async def test_a_server_without_connections_to_spare_keeps_no_worker_from_starting() -> None:
    """Connections are made ready for speed only: one is enough to work with, and that one is there."""
    asked: list[int] = []

    class Crowded(Ledger):
        async def warm_up(self, connections: int, *calls: object) -> None:
            asked.append(connections)
            raise ServerUnavailable("sorry, too many clients already")

    await Settler(cast("Any", Crowded(most=1))).warm_up(3)
    assert asked == [3]


async def test_a_group_that_is_too_large_is_settled_in_parts() -> None:
    """Many large results may be more than one value of the database can hold."""
    ledger = Ledger(most=3)
    await Settler(cast("Any", ledger)).settle_surely([settled(str(number)) for number in range(10)])
    assert ledger.written == [str(number) for number in range(10)]


@pytest.mark.parametrize("place", [0, 3, 6])
async def test_a_row_that_is_refused_leaves_the_others_settled(place: int) -> None:
    """Their effects have happened: they must not happen again because of a neighbour."""
    ledger, results = Ledger(most=100), [str(number) for number in range(7)]
    results[place] = "bad"
    with pytest.raises(ValueError, match="1 rows are refused"):
        await Settler(cast("Any", ledger)).settle_surely([settled(result) for result in results])
    assert ledger.written == [result for result in results if result != "bad"]
