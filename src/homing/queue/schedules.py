"""Schedules: jobs that the clock makes. What one is, when it fires, and what an engine must be able to do with it.

A schedule is a chain, as in BullMQ: the engine holds one tick, the next job, and whoever claims it makes the one after it. A tick's id names
the schedule and its time, so that making it again is making it once. Times are milliseconds here, as in BullMQ's own records.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol

from homing.cron import Cron, parse_cron
from homing.events.codec import dump_json
from homing.ids import JobId

LONGEST_ID = 200
MOST_MISSED = 1_000
"""Missed ticks that are counted one by one; more are as many."""

_BACK_MS = (60_000, 3_600_000, 86_400_000, 32 * 86_400_000, 5 * 366 * 86_400_000)
_TICK = "repeat:"
_MOST = 32_503_680_000_000  # milliseconds until the year 3000: no calendar ends on the way to a later tick
_LAST_MS = 253_402_300_799_000  # 9999-12-31T23:59:59Z


class TickId(NamedTuple):
    """What a tick's id says."""

    schedule: str
    due_ms: int

    @property
    def job_id(self) -> JobId:
        """The id of its job."""
        return JobId(f"{_TICK}{self.schedule}:{self.due_ms}")


def is_tick(job_id: str) -> bool:
    """Whether a job may be a schedule's: no other job's id begins like this."""
    return job_id.startswith(_TICK)


def read_tick(job_id: str) -> TickId | None:
    """The tick that a job is; `None` for every other job."""
    schedule, _, due = job_id.removeprefix(_TICK).rpartition(":")
    if not is_tick(job_id) or not schedule or not (due.isascii() and due.isdecimal() and len(due) < 16):
        return None
    return TickId(schedule, int(due))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When jobs are made, and which. Either `cron`, in a `zone`, or `every_ms`.

    `data` and `options` are JSON texts: what each job gets, and its terms in BullMQ's words. `start_ms`: no tick before; `end_ms`: none after;
    `limit`: so many ticks in all. `immediate`: a new schedule fires at once, and by its pattern afterwards.
    An interval begins at once, or at its start, and keeps its phase.
    """

    id: str
    job_name: str
    data: str = "{}"
    options: str = "{}"
    cron: str | None = None
    zone: str = "UTC"
    every_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    limit: int | None = None
    immediate: bool = field(default=False, compare=False)

    def is_as(self, other: "Schedule") -> bool:
        """Whether both mean the same ticks of the same jobs, however their JSON is written."""
        return self.meaning == other.meaning

    @property
    def meaning(self) -> tuple[object, ...]:
        """What two schedules that are the same have in common."""
        when = (self.cron, self.zone if self.cron else None, self.every_ms, self.start_ms, self.end_ms, self.limit)
        return (self.id, self.job_name, _value(self.data), _value(self.options), *when)

    @property
    def is_whole(self) -> bool:
        """Whether it means something that can be written down and reckoned with: anybody may have made it in an engine."""
        numbers = (self.every_ms, self.start_ms, self.end_ms, self.limit)
        texts = (self.id, self.job_name, self.data, self.options, self.cron or "", self.zone)
        return (
            (self.cron is None) != (self.every_ms is None)
            and self.id != ""
            and all(number is None or 0 < number < _MOST for number in numbers)
            and not any("\0" in text for text in texts)
        )

    def check_readable(self) -> None:
        """Raise a `ValueError` that says what is wrong with its pattern, where we cannot tell its times."""
        if self.every_ms is None:
            _ = self.parsed

    @property
    def parsed(self) -> Cron:
        """Its pattern; a `ValueError` where there is none, or one that nobody can read."""
        if self.cron is None:
            raise ValueError(f"schedule {self.id!r} has neither a cron pattern nor an interval")
        return parse_cron(_whole(self.cron), self.zone)

    def after(self, due_ms: int, now_ms: int) -> int | None:
        """The tick that follows the one of `due_ms`, later than now; `None` when its end has come. Missed ones are passed over."""
        if self.every_ms is not None:
            following = due_ms + self.every_ms
            if following < now_ms:
                following += (now_ms - following) // self.every_ms * self.every_ms + self.every_ms
        else:
            found = self._next(max(due_ms, now_ms))
            if found is None:
                return None
            following = found
        return following if self.end_ms is None or following <= self.end_ms else None

    def first(self, now_ms: int, ticks: int) -> int | None:
        """The first tick from now on, after so many; `None` when there will be none."""
        if self.is_over(now_ms, ticks):
            return None
        if self.every_ms is not None:
            first: int | None = max(now_ms, self.start_ms or 0)
        else:
            first = now_ms if self.immediate and not ticks else self._next(now_ms)
        return first if first is None or self.end_ms is None or first <= self.end_ms else None

    def is_over(self, now_ms: int, ticks: int) -> bool:
        """Whether it makes no tick any more, after so many."""
        return (self.end_ms is not None and now_ms > self.end_ms) or (self.limit is not None and ticks >= self.limit)

    def missed(self, due_ms: int, now_ms: int) -> int:
        """How many ticks after the one of `due_ms` will never be: their time passed before it was claimed."""
        if self.every_ms is not None:
            return max(0, now_ms - due_ms - 1) // self.every_ms
        missed, last = 0, self._next(due_ms)
        while last is not None and last <= now_ms and missed < MOST_MISSED:
            missed, last = missed + 1, self._next(last)
        return missed

    def latest(self, due_ms: int, now_ms: int) -> int:
        """The last tick whose time has come, from the one of `due_ms` on, whose has."""
        if self.every_ms is not None:
            return due_ms + (now_ms - due_ms) // self.every_ms * self.every_ms
        for back_ms in _BACK_MS:
            last, following = None, self._next(max(due_ms, now_ms - back_ms))
            while following is not None and following <= now_ms:
                last, following = following, self._next(following)
            if last is not None:
                return last
        return due_ms

    def upcoming(self, next_ms: int, ticks: int, count: int) -> list[int]:
        """The next `count` ticks, the first being that of `next_ms`, as the `ticks`-th."""
        found: list[int] = []
        following: int | None = next_ms
        while following is not None and len(found) < count:
            if self.limit is not None and ticks + len(found) > self.limit:
                break
            found.append(following)
            following = self.after(following, following)
        return found

    def _next(self, after_ms: int) -> int | None:
        """The pattern's next instant, not before the start; a `ValueError` for times that no calendar has."""
        begin_ms = after_ms if self.start_ms is None else max(after_ms, self.start_ms - 1)
        try:
            found = self.parsed.next(datetime.fromtimestamp(begin_ms / 1000, UTC))
        except (OverflowError, OSError) as error:
            raise ValueError(f"schedule {self.id!r} begins at {begin_ms} ms, which no calendar has") from error
        return None if found is None else int(found.timestamp() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSchedule:
    """A schedule as an engine holds it, or held it: `next_ms` is its tick; `ticks` how many were made, that one included.

    `offset_ms`: the phase of an interval.
    """

    schedule: Schedule
    next_ms: int
    ticks: int
    offset_ms: int | None = None

    @property
    def tick(self) -> TickId:
        """The tick that is held."""
        return TickId(self.schedule.id, self.next_ms)


@dataclass(frozen=True, slots=True)
class Advanced:
    """The chain went on: `next_ms` is the tick that was made, `None` after the last one; `missed` those that will never be."""

    next_ms: int | None
    missed: int = 0


class Upserted(Enum):
    """What an upsert came to."""

    ADDED = "added"
    CHANGED = "changed"
    SAME = "same"
    OVER = "over"
    """Its end has come, or all its ticks were made: nothing is added."""


class Scheduling(Protocol):
    """What an engine does with schedules. An engine that is away raises `ServerUnavailable`; every call may be repeated."""

    async def upsert_schedules(
        self, queue: str, schedules: Sequence[Schedule], past: Mapping[str, HeldSchedule] | None = None
    ) -> list[Upserted]:
        """Make the queue hold these schedules, each with one tick; one answer per schedule, in order.

        One that is held already stays as it is, with its tick. A changed one gets a new tick, by its new terms, unless the old one is due
        already: that one runs. Any number of processes may do this at once. `past`: how an engine that forgot held them last; limits and
        intervals go on from there.
        """
        ...

    async def schedules(self, queue: str, ids: Collection[str] | None = None) -> list[HeldSchedule]:
        """The schedules that the queue holds, or those of `ids`, in the order of their next ticks."""
        ...

    async def due_times(self, queue: str) -> dict[str, int]:
        """The next tick of every schedule of the queue: one command, however many there are."""
        ...

    async def remove_schedule(self, queue: str, schedule_id: str) -> bool:
        """Hold it no more, with its tick unless that is due; `False` when it was not held."""
        ...

    async def advance(self, queue: str, tick: TickId) -> Advanced | None:
        """Make the tick after this one. `None` when it is not the one that the schedule holds: somebody made the next one already."""
        ...

    async def dropped(self, queue: str, ticks: Sequence[TickId]) -> list[TickId]:
        """Those whose job was claimed, is gone, or lies where nobody will claim it: nobody makes the next tick. The others wait to be claimed."""
        ...

    async def add_run(self, queue: str, schedule: Schedule, job_id: JobId) -> bool:
        """Add a job of the schedule's, to be claimed now, apart from the chain; `False` when there is a job of that id.

        With the id of a tick whose time has passed it is that tick.
        """
        ...


def tick_data(data: str, schedule: str, due_ms: int, event_id: str) -> str | None:
    """The data of a tick's job with its schedule's name and its time in the payload, where that does not say something else already.

    All ticks of a schedule carry the same data. What Node's tools gave a schedule as data is the payload. `None` for data that is no JSON object.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if not isinstance(value.get("payload"), dict):
        value = {"payload": value}
    payload = {"schedule": schedule, "dueAt": moment_of(due_ms).isoformat()} | value["payload"]
    return dump_json({"eventId": event_id} | value | {"payload": payload})


def moment_of(due_ms: int) -> datetime:
    """A tick's time; anybody may have written the number."""
    return datetime.fromtimestamp(min(max(due_ms, 0), _LAST_MS) / 1000, UTC)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _whole(pattern: str) -> str:
    """The pattern with the fields that Node lets people leave out, from the front: seconds are 0, all others any."""
    fields = pattern.split()
    return (
        pattern
        if not fields or len(fields) >= 5 or pattern.startswith("@")
        else " ".join(["*"] * (5 - len(fields)) + fields)
    )
