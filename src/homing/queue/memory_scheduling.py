"""Schedules of the engine in memory: a record and one tick each, with the meaning that BullMQ's scripts give them."""

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from homing.clock import Clock
from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.memory_browsing import MemoryBrowsing
from homing.queue.memory_entry import State
from homing.queue.schedules import Advanced, HeldSchedule, Schedule, TickId, Upserted


class MemoryScheduling(ABC):
    """Keeps schedules, by queue."""

    _guard: threading.RLock
    _changed: asyncio.Event
    _clock: Clock
    _held: dict[str, dict[str, HeldSchedule]]

    @abstractmethod
    def _queue(self, name: str) -> MemoryBrowsing:
        """The queue of this name."""

    async def upsert_schedules(
        self, queue: str, schedules: Sequence[Schedule], past: Mapping[str, HeldSchedule] | None = None
    ) -> list[Upserted]:
        """Make the queue hold these schedules."""
        with self._guard:
            answers = [self._upsert(queue, schedule, (past or {}).get(schedule.id)) for schedule in schedules]
        self._changed.set()
        return answers

    async def schedules(self, queue: str, ids: Collection[str] | None = None) -> list[HeldSchedule]:
        """The schedules that the queue holds, in the order of their next ticks."""
        with self._guard:
            held = self._held.get(queue, {}).values()
            chosen = [one for one in held if ids is None or one.schedule.id in ids]
        return sorted(chosen, key=lambda one: (one.next_ms, one.schedule.id))

    async def due_times(self, queue: str) -> dict[str, int]:
        """The next tick of every schedule."""
        return {one.schedule.id: one.next_ms for one in await self.schedules(queue)}

    async def remove_schedule(self, queue: str, schedule_id: str) -> bool:
        """Hold it no more, with its tick unless that is due."""
        with self._guard:
            held = self._held.get(queue, {}).pop(schedule_id, None)
            if held is not None:
                self._take_back(queue, held)
            return held is not None

    async def advance(self, queue: str, tick: TickId) -> Advanced | None:
        """Make the tick after this one."""
        with self._guard:
            held = self._held.get(queue, {}).get(tick.schedule)
            if held is None or held.next_ms != tick.due_ms:
                return None
            advanced = self._go_on(queue, held)
        self._changed.set()
        return advanced

    async def dropped(self, queue: str, ticks: Sequence[TickId]) -> list[TickId]:
        """Those whose job was claimed or is gone."""
        with self._guard:
            entries = [self._queue(queue).entry(tick.job_id) for tick in ticks]
        return [tick for tick, entry in zip(ticks, entries, strict=True) if entry is None or entry.starts]

    async def add_run(self, queue: str, schedule: Schedule, job_id: JobId) -> bool:
        """Add a job of the schedule's apart from the chain."""
        with self._guard:
            is_new = not self._queue(queue).trace(job_id).exists
            self._queue(queue).add(self._job(schedule, job_id, self._now_ms()))
        self._changed.set()
        return is_new

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _upsert(self, queue: str, schedule: Schedule, past: HeldSchedule | None) -> Upserted:
        held = self._held.setdefault(queue, {}).get(schedule.id)
        if held is not None and held.schedule.is_as(schedule):
            return Upserted.SAME
        if held is not None and held.next_ms <= self._now_ms():
            self._go_on(queue, held)  # its tick is due and runs; the next one is what the new terms replace
            held = self._held[queue][schedule.id]
        known = held or past
        made = 0 if known is None else known.ticks - (known.next_ms > self._now_ms())
        first_ms = self._first(queue, schedule, known, made)
        if first_ms is None:
            return Upserted.OVER
        if held is not None:
            self._take_back(queue, held)
        self._hold(queue, HeldSchedule(schedule=schedule, next_ms=first_ms, ticks=made + 1))
        return Upserted.ADDED if held is None else Upserted.CHANGED

    def _take_back(self, queue: str, held: HeldSchedule) -> None:
        """Remove its tick, unless that is due or somebody let it run early."""
        entry = self._queue(queue).entry(held.tick.job_id)
        if entry is not None and entry.state is State.DELAYED and held.next_ms > self._now_ms():
            self._queue(queue).remove(held.tick.job_id)

    def _first(self, queue: str, schedule: Schedule, known: HeldSchedule | None, made: int) -> int | None:
        """The first tick by new terms, which nobody has run yet; an interval that stays the same keeps its phase."""
        now_ms = self._now_ms()
        first_ms = schedule.first(now_ms, made)
        is_in_phase = (
            known is not None and schedule.every_ms is not None and schedule.every_ms == known.schedule.every_ms
        )
        if first_ms is not None and known is not None and is_in_phase:
            first_ms = known.next_ms if known.next_ms >= now_ms else schedule.after(known.next_ms, now_ms)
        while first_ms is not None and self._is_taken(queue, schedule, first_ms, known):
            first_ms = schedule.after(first_ms, now_ms)
        return first_ms

    def _is_taken(self, queue: str, schedule: Schedule, due_ms: int, known: HeldSchedule | None) -> bool:
        is_held = known is not None and known.next_ms == due_ms
        return not is_held and self._queue(queue).trace(TickId(schedule.id, due_ms).job_id).exists

    def _go_on(self, queue: str, held: HeldSchedule) -> Advanced:
        schedule, now_ms = held.schedule, self._now_ms()
        following = None if schedule.is_over(now_ms, held.ticks) else schedule.after(held.next_ms, now_ms)
        if following is not None:
            self._hold(queue, replace(held, next_ms=following, ticks=held.ticks + 1))
        return Advanced(following, schedule.missed(held.next_ms, now_ms))

    def _hold(self, queue: str, held: HeldSchedule) -> None:
        offset_ms = held.next_ms % held.schedule.every_ms if held.schedule.every_ms else None
        self._held.setdefault(queue, {})[held.schedule.id] = replace(held, offset_ms=offset_ms)
        self._queue(queue).add(self._job(held.schedule, held.tick.job_id, held.next_ms))

    def _job(self, schedule: Schedule, job_id: JobId, due_ms: int) -> NewJob:
        now_ms, options = self._now_ms(), json.loads(schedule.options)
        return NewJob(
            id=job_id,
            name=schedule.job_name,
            data=schedule.data,
            timestamp_ms=now_ms,
            attempts=max(1, options.get("attempts", 1)),
            priority=options.get("priority", 0),
            delay_seconds=max(0, due_ms - now_ms) / 1000,
        )

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)
