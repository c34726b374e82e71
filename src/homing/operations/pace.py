"""How fast work goes, reckoned from two looks at the ledger: no statement walks over what is settled.

Settled between the looks = what the first one saw open and the second does not, plus what was opened and settled in between. The
second part is found among events recorded lately, so that scheduled and backfilled ones that pass within one interval may be missed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from homing.ids import first_id_at
from homing.ledger.ledger import Ledger
from homing.operations.overview import MOST
from homing.schema.statement import load

_HERE = "homing.operations"
OPEN_WORK = load(_HERE, "open_work")
STILL_OPEN = load(_HERE, "still_open")
SETTLED_SINCE = load(_HERE, "settled_since")
DIED_SINCE = load(_HERE, "died_since")

LATELY = timedelta(seconds=60)
"""How long before the first look an event that is settled in between may have been recorded."""

WALK = 20_000
"""Deliveries of events recorded lately that are looked at, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """The first look: what each consumer had to do, up to which moment of opening that was counted, and the newest letter."""

    at: datetime
    unsettled: Mapping[str, int]
    horizons: Mapping[str, datetime]
    last_letter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One consumer between two looks: deliveries settled and dead per second, and what is unsettled at the second one."""

    consumer: str
    unsettled: int
    settled_per_second: float
    dead_per_second: float


async def read_open_work(ledger: Ledger) -> OpenWork:
    """A look to be compared with a later one."""
    rows = await ledger.fetch(OPEN_WORK, most=MOST)
    busy = [row for row in rows if row["consumer"] is not None]
    return OpenWork(
        at=rows[0]["at"],
        unsettled={row["consumer"]: row["unsettled"] for row in busy},
        horizons={row["consumer"]: row["horizon"] for row in busy if row["unsettled"]},
        last_letter=rows[0]["last_letter"],
    )


async def read_pace(ledger: Ledger, before: OpenWork) -> tuple[OpenWork, tuple[Pace, ...]]:
    """A second look, and the pace of every consumer since the first one, by name."""
    names = list(before.horizons)
    still = await ledger.fetch(
        STILL_OPEN, consumers=names, horizons=[before.horizons[name] for name in names], most=MOST
    )
    first = first_id_at(before.at - LATELY)
    fresh = await ledger.fetch(SETTLED_SINCE, first=first, since=before.at, walk=WALK)
    died = await ledger.fetch(DIED_SINCE, letter=before.last_letter)
    now = await read_open_work(ledger)
    return now, reckon(
        before,
        now,
        still={row["consumer"]: row["unsettled"] for row in still},
        fresh={row["consumer"]: row["settled"] for row in fresh},
        died={row["consumer"]: row["deaths"] for row in died},
    )


def reckon(
    before: OpenWork, now: OpenWork, *, still: Mapping[str, int], fresh: Mapping[str, int], died: Mapping[str, int]
) -> tuple[Pace, ...]:
    """The pace from two looks and what was found between them. Pure."""
    seconds = max((now.at - before.at).total_seconds(), 0.001)
    names = sorted({*before.unsettled, *now.unsettled, *fresh, *died})

    def settled(name: str) -> int:
        left = before.unsettled.get(name, 0) - still.get(name, 0)
        return max(left, 0) + fresh.get(name, 0)

    return tuple(
        Pace(
            consumer=name,
            unsettled=now.unsettled.get(name, 0),
            settled_per_second=settled(name) / seconds,
            dead_per_second=died.get(name, 0) / seconds,
        )
        for name in names
    )
