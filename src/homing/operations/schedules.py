"""Schedules as people see and steer them: when they fire next, what came of the last tick, run now, pause, resume, remove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from uuid import UUID

from homing.durations import describe_seconds
from homing.errors import ServerUnavailable
from homing.events.envelope import foreign_id
from homing.ledger.ledger import Ledger, Row
from homing.operations.overview import ALIVE_SECONDS
from homing.queue.job import JobTrace
from homing.queue.port import Engine
from homing.queue.schedules import Schedule, TickId, moment_of
from homing.scheduler.rows import schedule_of, ticks_run
from homing.schema.statement import load

_HERE = "homing.operations"
LIST_SCHEDULES = load(_HERE, "list_schedules")
SETTLED_TICKS = load(_HERE, "settled_ticks")

UPCOMING = 5
"""Ticks that are shown ahead."""

MOST_LISTED = 500
"""Schedules on one page at the most."""


class TickState(Enum):
    """What came of a tick."""

    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    """Completed by a worker that keeps no ledger."""
    FAILED = "failed"
    """Failed with a worker that keeps no ledger."""
    OPEN = "open"
    """It waits, or runs."""
    UNKNOWN = "unknown"
    """Neither the ledger nor the engine has anything of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTick:
    """The tick before the next one: for which time it ran, and what came of it; `settled_at` where the ledger knows."""

    due_at: datetime
    job_id: str
    state: TickState
    settled_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLine:
    """One schedule. `upcoming`: its next ticks, none while it is paused or when it is over; the first may be late, and then waits for a worker.

    `by_code`: code declared it; otherwise somebody made it in the engine. `declared`: a live worker has it in its code; `orphaned`: live workers
    serve its queue and none of them has it any more. `held`: whether the engine has it; `None` when it could not be asked, and `upcoming` is as it
    was seen last.
    """

    queue: str
    schedule: Schedule
    by_code: bool
    declared: bool
    orphaned: bool
    paused_at: datetime | None
    held: bool | None
    upcoming: tuple[datetime, ...]
    last: LastTick | None
    ticks: int

    @property
    def name(self) -> str:
        """Its name in the queue."""
        return self.schedule.id

    @property
    def when(self) -> str:
        """When it fires, in words."""
        if self.schedule.every_ms is not None:
            return f"every {describe_seconds(self.schedule.every_ms / 1000)}"
        return f"{self.schedule.cron} {self.schedule.zone}"

    def local(self, due: datetime) -> datetime:
        """A tick's time as the schedule's own clock shows it."""
        return due.astimezone(self.schedule.parsed.where)

    @property
    def is_over(self) -> bool:
        """Whether it makes no tick any more: its end has come, or all its ticks were made."""
        return not self.upcoming and self.paused_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    """Some schedules; `after` asks for the next page, `None` when this is the last one."""

    schedules: tuple[ScheduleLine, ...]
    after: tuple[str, str] | None


async def list_schedules(
    ledger: Ledger,
    engine: Engine,
    *,
    queue: str | None = None,
    name: str | None = None,
    after: tuple[str, str] | None = None,
    most: int = 100,
) -> SchedulePage:
    """A page of the schedules that are written down, by queue and name. An engine that is away hides nothing that the ledger knows."""
    page = min(max(1, most), MOST_LISTED)
    after_queue, after_schedule = after or (None, None)
    rows = await ledger.fetch(
        LIST_SCHEDULES,
        queue=queue,
        schedule=name,
        after_queue=after_queue,
        after_schedule=after_schedule,
        alive_seconds=ALIVE_SECONDS,
        page=page,
    )
    lines: list[ScheduleLine] = []
    for each in dict.fromkeys(row["queue"] for row in rows):
        lines += await _lines(ledger, engine, each, [row for row in rows if row["queue"] == each])
    last = (rows[-1]["queue"], rows[-1]["schedule"]) if len(rows) == page else None
    return SchedulePage(schedules=tuple(lines), after=last)


async def _lines(ledger: Ledger, engine: Engine, queue: str, rows: Sequence[Row]) -> list[ScheduleLine]:
    ticks = [TickId(row["schedule"], row["last_ms"]) for row in rows if row["last_ms"] is not None]
    settled = await _settled(ledger, queue, ticks)
    due: Mapping[str, int] | None = None
    traces: dict[str, JobTrace] = {}
    try:
        due = await engine.due_times(queue)
        ids = [tick.job_id for tick in ticks]
        traces = dict(zip(ids, await engine.inspect(queue, ids), strict=True))
    except ServerUnavailable:
        pass  # what the ledger saw last is shown, and that the engine was not asked
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    return [_line(row, due, _last(queue, row, settled, traces), now_ms) for row in rows]


def _line(row: Row, due: Mapping[str, int] | None, last: LastTick | None, now_ms: int) -> ScheduleLine:
    by_code = row["source"] == "code"
    return ScheduleLine(
        queue=row["queue"],
        schedule=schedule_of(row),
        by_code=by_code,
        declared=by_code and row["declared"],
        orphaned=by_code and row["served"] and not row["declared"],
        paused_at=row["paused_at"],
        held=None if due is None else row["schedule"] in due,
        upcoming=_upcoming(row, due, now_ms),
        last=last,
        ticks=row["ticks"],
    )


def _upcoming(row: Row, due: Mapping[str, int] | None, now_ms: int) -> tuple[datetime, ...]:
    schedule, next_ms = schedule_of(row), row["next_ms"] if due is None else due.get(row["schedule"])
    if row["paused_at"] is not None or next_ms is None:
        return ()
    if next_ms <= now_ms and schedule.is_over(now_ms, ticks_run(row, now_ms)):
        return ()
    try:
        return tuple(map(moment_of, schedule.upcoming(next_ms, row["ticks"], UPCOMING)))
    except ValueError:  # a pattern that only its maker can read: its next tick is known all the same
        return (moment_of(next_ms),)


async def _settled(ledger: Ledger, queue: str, ticks: Sequence[TickId]) -> dict[UUID, Row]:
    if not ticks:
        return {}
    ids = [foreign_id(queue, tick.job_id, 0) for tick in ticks]
    return {row["event_id"]: row for row in await ledger.fetch(SETTLED_TICKS, ids=ids)}


def _last(queue: str, row: Row, settled: Mapping[UUID, Row], traces: Mapping[str, JobTrace]) -> LastTick | None:
    if row["last_ms"] is None:
        return None
    tick = TickId(row["schedule"], row["last_ms"])
    known = settled.get(foreign_id(queue, tick.job_id, 0))
    trace = traces.get(tick.job_id)
    if known is not None and known["outcome"] is not None:
        state, settled_at = TickState(known["outcome"]), known["settled_at"]
    else:
        state, settled_at = _state_of(trace), None
    reason = "" if trace is None or trace.failed_reason is None else trace.failed_reason
    return LastTick(
        due_at=moment_of(tick.due_ms), job_id=tick.job_id, state=state, settled_at=settled_at, reason=reason
    )


def _state_of(trace: JobTrace | None) -> TickState:
    if trace is None or not trace.exists:
        return TickState.UNKNOWN
    if not trace.finished:
        return TickState.OPEN
    return TickState.FINISHED if trace.failed_reason is None else TickState.FAILED
