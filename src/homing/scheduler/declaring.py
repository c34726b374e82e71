"""What a worker does with the schedules of its code before it claims: they are written down, and the engine gets those that it lacks."""

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from homing.app.schedules import DeclaredSchedule
from homing.ledger.ledger import Ledger, Row
from homing.queue.port import Engine
from homing.scheduler.keeper import Keeper
from homing.scheduler.rows import DECLARE, declared_columns

PAGE_SCHEDULES = 1_000

CLOCKS_APART = timedelta(seconds=1)
"""How exactly we know the database's clock: what others said before that is said again."""


async def declare_schedules(ledger: Ledger, engine: Engine, schedules: Sequence[DeclaredSchedule]) -> None:
    """Write down the schedules of this code, and make the engine hold them.

    Any number of workers may do so at once, with code of different ages: each queue has one of each name, as the last of them said. What a
    person paused stays paused; what only older code had stays too, and is shown as orphaned.
    """
    since = datetime.now(UTC) + timedelta(seconds=ledger.clock_offset_seconds) + CLOCKS_APART
    keeper = Keeper(ledger, engine)
    for page in _pages(schedules):
        for queue, names in _by_queue(await ledger.fetch(DECLARE, since=since, **declared_columns(page))).items():
            await keeper.push(queue, names)
    await _push_missing(keeper, engine, schedules)


def _pages(schedules: Sequence[DeclaredSchedule]) -> list[Sequence[DeclaredSchedule]]:
    """Pages in the order of their keys, from any of them on: workers that start at once share the work, where there is much of it."""
    pages = [schedules[start : start + PAGE_SCHEDULES] for start in range(0, len(schedules), PAGE_SCHEDULES)]
    begin = random.randrange(max(1, len(pages)))  # noqa: S311 - who begins where is nobody's secret
    return pages[begin:] + pages[:begin]


def _by_queue(rows: Iterable[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["queue"], []).append(row["schedule"])
    return found


async def _push_missing(keeper: Keeper, engine: Engine, schedules: Sequence[DeclaredSchedule]) -> None:
    """What was written down before, and the engine does not hold: it forgot, or whoever wrote it died before the engine heard of it."""
    for queue in dict.fromkeys(one.queue for one in schedules):
        held = await engine.due_times(queue)
        missing = [one.schedule.id for one in schedules if one.queue == queue and one.schedule.id not in held]
        if missing:
            await keeper.push(queue, missing)
