"""What a worker does with the schedules of its code before it claims: they are written down, and the engine gets those that it lacks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from homing.app.schedules import DeclaredSchedule
from homing.ledger.ledger import Ledger
from homing.queue.port import Engine
from homing.scheduler.keeper import Keeper
from homing.scheduler.rows import DECLARE, declared_columns

PAGE_SCHEDULES = 1_000

CLOCKS_APART = timedelta(seconds=1)
"""How exactly we know the database's clock: what others said before that is said again."""


async def declare_schedules(ledger: Ledger, engine: Engine, schedules: Sequence[DeclaredSchedule]) -> None:
    """Write down the schedules of this code, and make the engine hold them; `schedules` come in the order of their queues and names.

    Any number of workers may do so at once, with code of different ages: each queue has one of each name, as the last of them said. What a
    person paused stays paused; what only older code had stays too, and is shown as orphaned.
    """
    since = datetime.now(UTC) + timedelta(seconds=ledger.clock_offset_seconds) + CLOCKS_APART
    for start in range(0, len(schedules), PAGE_SCHEDULES):
        await ledger.fetch(DECLARE, since=since, **declared_columns(schedules[start : start + PAGE_SCHEDULES]))
    keeper = Keeper(ledger, engine)
    for queue, declared in groupby(schedules, key=lambda one: one.queue):
        await keeper.push(queue, [one.schedule.id for one in declared])
