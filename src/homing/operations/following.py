"""Following what happens: deliveries as they settle, deaths, and what people do, by asking again and again from where one was."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from homing.clock import Clock, SystemClock
from homing.durations import describe_seconds
from homing.ids import DeliveryKey, first_id_at
from homing.ledger.ledger import Ledger, Row
from homing.schema.statement import load

_HERE = "homing.operations"
TAIL_SETTLED = load(_HERE, "tail_settled")
TAIL_LETTERS = load(_HERE, "tail_letters")
TAIL_ACTIONS = load(_HERE, "tail_actions")

WINDOW = timedelta(seconds=60)
"""How long after its event was recorded a settled delivery is still noticed."""

OVERLAP = timedelta(seconds=5)
"""How far back each question reaches: a transaction that was open at the last one has ended since."""

PAGE = 500
"""Things of each kind that one question brings, at most."""

WALK = 20_000
"""Deliveries of events recorded lately that are looked at, at most."""

_GAP = 100
"""Ids before the newest one whose transactions may have been open at the last question."""

_REMEMBERED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened: a delivery that was settled, a death, or a deed. `text` is as hostile as what it tells of."""

    at: datetime
    kind: Literal["settled", "dead", "action"]
    subject: str
    id: str
    text: str


class _Cursor:
    """Where reading by growing ids goes on: a little before its end, and never before where it began."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = 0

    @property
    def begin(self) -> int | None:
        return None if self._first is None else max(self._last - _GAP, self._first)

    def move(self, rows: Sequence[Row]) -> list[Row]:
        """Go on behind these rows, and return those that hold something."""
        found = [row for row in rows if row["id"] is not None]
        self._last = found[-1]["id"] if len(found) == PAGE + _GAP else rows[0]["newest"]
        if self._first is None:
            self._first = self._last
        return found


class Follower:
    """Remembers what it told; `look` returns what is new. The first look tells nothing that was there before."""

    def __init__(
        self, ledger: Ledger, *, consumer: str | None = None, queue: str | None = None, clock: Clock | None = None
    ) -> None:
        self._ledger = ledger
        self._consumer = consumer
        self._queue = queue
        self._clock = clock or SystemClock()
        self._letters = _Cursor()
        self._actions = _Cursor()
        self._told: set[str] = set()
        self._order: deque[str] = deque()
        self._primed = False

    async def look(self) -> list[Happening]:
        """What happened since the last look, in order."""
        found = [*await self._settled(), *await self._deaths()]
        if self._consumer is None and self._queue is None:
            found += await self._deeds()
        fresh = [each for each in found if self._is_new(each)]
        if not self._primed:
            self._primed = True
            return []
        return sorted(fresh, key=lambda each: each.at)

    async def _settled(self) -> Iterable[Happening]:
        now = self._clock.now() + timedelta(seconds=self._ledger.clock_offset_seconds)
        rows = await self._ledger.fetch(
            TAIL_SETTLED,
            first=first_id_at(now - WINDOW),
            since=now - OVERLAP,
            consumer=self._consumer,
            queue=self._queue,
            walk=WALK,
            page=PAGE,
        )
        return [_settled(row) for row in rows if row["outcome"] != "dead"]  # its letter tells more

    async def _deaths(self) -> Iterable[Happening]:
        rows = await self._ledger.fetch(
            TAIL_LETTERS, letter=self._letters.begin, consumer=self._consumer, queue=self._queue, page=PAGE + _GAP
        )
        return [_death(row) for row in self._letters.move(rows)]

    async def _deeds(self) -> Iterable[Happening]:
        rows = await self._ledger.fetch(TAIL_ACTIONS, seen=self._actions.begin, page=PAGE + _GAP)
        return [_deed(row) for row in self._actions.move(rows)]

    def _is_new(self, each: Happening) -> bool:
        key = f"{each.kind} {each.id}"
        if key in self._told:
            return False
        self._told.add(key)
        self._order.append(key)
        if len(self._order) > _REMEMBERED:
            self._told.discard(self._order.popleft())
        return True


def _settled(row: Row) -> Happening:
    key = DeliveryKey(row["event_id"], row["consumer"], row["generation"])
    return Happening(
        at=row["settled_at"],
        kind="settled",
        subject=row["consumer"],
        id=key.job_id,
        text=f"{row['outcome']} after {describe_seconds(row['took_seconds'])}",
    )


def _death(row: Row) -> Happening:
    return Happening(
        at=row["failed_at"],
        kind="dead",
        subject=row["consumer"],
        id=str(row["id"]),
        text=f"{row['kind']}, {row['error_class']}: {row['error_text']}",
    )


def _deed(row: Row) -> Happening:
    why = "" if row["reason"] is None else f", because {row['reason']}"
    return Happening(
        at=row["at"],
        kind="action",
        subject=row["actor"],
        id=str(row["id"]),
        text=f"{row['action']} of {row['affected']}: {row['subject']}{why}",
    )
