"""Schedules in BullMQ's own records and scripts, so that Node's workers and ours take turns at the ticks of one schedule."""

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from homing.errors import ServerUnavailable
from homing.ids import JobId
from homing.queue.redis import encoding
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.link import Word
from homing.queue.redis.looking import RedisLooking
from homing.queue.redis.scripts import ScriptCall, run, run_many
from homing.queue.schedules import Advanced, HeldSchedule, Schedule, TickId, Upserted

PAGE_SCHEDULES = 500
_MOST_TRIES = 50
_MOVED = -100
_TICK_IS_TAKEN = -10
_LATEST_MS = 2.0**53


class RedisScheduling(RedisLooking):
    """The part of the engine that keeps schedules."""

    async def upsert_schedules(
        self, queue: str, schedules: Sequence[Schedule], past: Mapping[str, HeldSchedule] | None = None
    ) -> list[Upserted]:
        """Make the queue hold these schedules. What another process changes between our look and our word is looked at again."""
        upsert = _Upsert(past or {})
        begin = random.randrange(max(1, len(schedules)))  # noqa: S311 - processes that start at once do not all begin with the same ones
        left = {schedule.id: schedule for schedule in (*schedules[begin:], *schedules[:begin])}
        for _ in range(_MOST_TRIES):
            for start in range(0, len(left), PAGE_SCHEDULES):
                await self._upsert_page(queue, list(left.values())[start : start + PAGE_SCHEDULES], upsert)
            left = {name: schedule for name, schedule in left.items() if name not in upsert.answers}
            if not left:
                return [upsert.answers[schedule.id] for schedule in schedules]
        raise ServerUnavailable(f"schedule {min(left)!r} of queue {queue} changes faster than it can be set")

    async def schedules(self, queue: str, ids: Collection[str] | None = None) -> list[HeldSchedule]:
        """The schedules that the queue holds, in the order of their next ticks; what has no record any more is left out."""
        keys = self._keys(queue)
        wanted = list(await self.due_times(queue) if ids is None else ids)
        found: list[HeldSchedule] = []
        for start in range(0, len(wanted), PAGE_SCHEDULES):
            page = wanted[start : start + PAGE_SCHEDULES]
            found += [record.held for record in (await self._records(keys, page)).values() if record.held is not None]
        return sorted(found, key=lambda held: (held.next_ms, held.schedule.id))

    async def due_times(self, queue: str) -> dict[str, int]:
        """The next tick of every schedule of the queue: the queue's own sorted set of them."""
        flat = await self._main.call("ZRANGE", self._keys(queue).repeat, 0, -1, "WITHSCORES")
        return {_text(name): _time(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}

    async def remove_schedule(self, queue: str, schedule_id: str) -> bool:
        """Hold it no more. A tick that is due runs: the script would take it away, even from between two attempts."""
        keys = self._keys(queue)
        due_ms = await self._main.call("ZSCORE", keys.repeat, schedule_id)
        if due_ms is not None and _time(due_ms) <= self._now_ms():
            await self.advance(queue, TickId(schedule_id, _time(due_ms)))
        reply = await run(self._main, self._scripts.remove_scheduler, keys.remove_scheduler, schedule_id, keys.base)
        return bool(reply == 0)

    async def advance(self, queue: str, tick: TickId) -> Advanced | None:
        """Make the tick after this one, from what the schedule's record says now."""
        keys = self._keys(queue)
        held = (await self._records(keys, [tick.schedule]))[tick.schedule].held
        if held is None or held.next_ms != tick.due_ms:
            return None
        ticks = await self._ticks_until(keys, held)
        now_ms = self._now_ms()
        following = None if held.schedule.is_over(now_ms, ticks) else held.schedule.after(tick.due_ms, now_ms)
        missed = held.schedule.missed(tick.due_ms, now_ms)
        if following is None:
            return Advanced(None, missed)
        options = encoding.pack(_tick_options(held.schedule, TickId(tick.schedule, following), now_ms, ticks + 1))
        arguments = (following, tick.schedule, held.schedule.data, options, now_ms, keys.base, tick.job_id)
        names = keys.update_scheduler(tick.job_id)
        made = await run(self._main, self._scripts.update_scheduler, names, *arguments)
        return None if made is None else Advanced(following, missed)

    async def dropped(self, queue: str, ticks: Sequence[TickId]) -> list[TickId]:
        """Those whose job was claimed or is gone, and those that lie in no line any more: BullMQ's drain takes a tick out of its line and
        leaves its job. The lines are read in the order in which a job moves through them, so that none is missed on its way.
        """  # noqa: D205 - one thought
        keys = self._keys(queue)
        lines = [("ZSCORE", "delayed"), ("ZSCORE", "prioritized"), ("LPOS", "wait"), ("LPOS", "paused")]
        commands: list[tuple[Word, ...]] = []
        for tick in ticks:
            commands += [(command, keys.part(name), tick.job_id) for command, name in lines]
            commands.append(("HMGET", keys.part(tick.job_id), "name", "processedOn"))
        replies, step = await self._together(*commands), len(lines) + 1
        dropped: list[TickId] = []
        for at, tick in enumerate(ticks):
            *places, (name, started) = replies[at * step : (at + 1) * step]
            if name is None or started is not None or all(place is None for place in places):
                dropped.append(tick)
        return dropped

    async def add_run(self, queue: str, schedule: Schedule, job_id: JobId) -> bool:
        """Add a job of the schedule's apart from the chain; the add script leaves a job of that id as it is."""
        keys, now_ms = self._keys(queue), self._now_ms()
        there = await self._main.call("EXISTS", keys.part(job_id))
        options = _json(schedule.options.encode()) | {"jobId": job_id, "timestamp": now_ms}
        identity = [keys.base, job_id, schedule.job_name, now_ms, None, None, None, None, None]
        script, names = self._scripts.add_standard, keys.add_standard
        if options.get("priority"):
            script, names = self._scripts.add_prioritized, keys.add_prioritized
        await run(self._main, script, names, encoding.pack(identity), schedule.data, encoding.pack(options))
        return bool(there == 0)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _records(self, keys: QueueKeys, ids: Sequence[str]) -> dict[str, "_Record"]:
        script = self._scripts.get_scheduler
        replies = await run_many(self._main, [ScriptCall(script, (keys.repeat,), (name,)) for name in ids])
        return {name: _record(name, reply) for name, reply in zip(ids, replies, strict=True)}

    async def _upsert_page(self, queue: str, page: Sequence[Schedule], upsert: "_Upsert") -> None:
        """Answer for those that are settled; the others changed under our eyes."""
        keys = self._keys(queue)
        await self._seed(keys, [upsert.past[one.id] for one in page if one.id in upsert.past])
        records = await self._records(keys, [schedule.id for schedule in page])
        calls: dict[str, ScriptCall] = {}
        for schedule in page:
            held = records[schedule.id].held
            if held is not None and held.schedule.is_as(schedule):
                upsert.answers[schedule.id] = Upserted.SAME
            elif held is not None and held.next_ms <= self._now_ms() and await self._let_run(queue, held):
                continue  # its tick is due and runs; the next one is what the new terms replace
            elif (call := self._set_call(keys, schedule, records[schedule.id], upsert)) is None:
                upsert.answers[schedule.id] = Upserted.OVER
            else:
                calls[schedule.id] = call
        for name, reply in zip(calls, await run_many(self._main, list(calls.values())), strict=True):
            if reply == _TICK_IS_TAKEN:
                upsert.taken[name] = int(calls[name].arguments[0])
            elif reply != _MOVED:
                upsert.answers[name] = _answer(queue, name, reply, known=records[name].held is not None)

    async def _seed(self, keys: QueueKeys, past: Sequence[HeldSchedule]) -> None:
        """Let a record begin where it ended: the script counts on from the ticks that it finds, and an interval from its last tick."""
        commands: list[tuple[Word, ...]] = []
        for held in past:
            record, every_ms = keys.scheduler(held.schedule.id), held.schedule.every_ms
            commands.append(("HSETNX", record, "ic", held.ticks))
            if every_ms is not None:
                commands.append(("HSETNX", record, "every", every_ms))
                commands.append(("ZADD", keys.repeat, "NX", held.next_ms - every_ms, held.schedule.id))
        await self._together(*commands)

    async def _let_run(self, queue: str, held: HeldSchedule) -> bool:
        advanced = await self.advance(queue, held.tick)
        return advanced is None or advanced.next_ms is not None

    def _set_call(self, keys: QueueKeys, schedule: Schedule, record: "_Record", upsert: "_Upsert") -> ScriptCall | None:
        """The call that adds it, unless somebody else does meanwhile: it names the tick that we saw. `None` when it is over."""
        now_ms, past = self._now_ms(), record.held or upsert.past.get(schedule.id)
        made = 0 if past is None else past.ticks - (past.next_ms > now_ms)
        taken_ms = upsert.taken.get(schedule.id)
        first_ms = schedule.first(now_ms, made) if taken_ms is None else schedule.after(taken_ms, now_ms)
        if first_ms is None:
            return None
        offset_ms = None if past is None or past.schedule.every_ms != schedule.every_ms else past.offset_ms
        arguments = (
            first_ms,
            encoding.pack({"name": schedule.job_name} | _when(schedule, offset_ms)),
            schedule.id,
            schedule.data,
            encoding.pack(_json(schedule.options.encode())),
            encoding.pack(_tick_options(schedule, TickId(schedule.id, first_ms), now_ms, made + 1)),
            now_ms,
            keys.base,
            "",
            record.score,
        )
        return ScriptCall(self._scripts.add_scheduler, keys.add_scheduler, arguments)

    async def _ticks_until(self, keys: QueueKeys, held: HeldSchedule) -> int:
        """How many ticks there were: the tick's own count where it has one, since Node counts a limit from its last upsert."""
        if held.schedule.limit is None:
            return held.ticks
        repeat = _json(await self._main.call("HGET", keys.part(held.tick.job_id), "opts")).get("repeat")
        count = repeat.get("count") if isinstance(repeat, dict) else None
        return count if isinstance(count, int) and count > 0 else held.ticks


@dataclass(frozen=True, slots=True)
class _Record:
    """A schedule's record as one read found it: `score` is its tick as the queue's sorted set has it, empty without one."""

    held: HeldSchedule | None
    score: str


@dataclass(frozen=True, slots=True)
class _Upsert:
    """An upsert on its way: what was answered, and times whose tick somebody has already run."""

    past: Mapping[str, HeldSchedule]
    answers: dict[str, Upserted] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)


def _answer(queue: str, name: str, reply: Any, *, known: bool) -> Upserted:
    if isinstance(reply, BaseException):
        raise reply
    if not isinstance(reply, list):
        raise ServerUnavailable(f"schedule {name!r} of queue {queue} was not set, the script answered {reply!r}")
    return Upserted.CHANGED if known else Upserted.ADDED


# ── What BullMQ writes ──────────────────────────────────────────────────────────────────────────────────────────────


def _when(schedule: Schedule, offset_ms: int | None = None) -> dict[str, Any]:
    """When it fires, in the names that a schedule's record and a tick's options have for it."""
    fields: dict[str, Any] = {
        "pattern": schedule.cron,
        "tz": schedule.zone if schedule.cron else None,
        "every": schedule.every_ms,
        "offset": offset_ms or None,
        "startDate": schedule.start_ms,
        "endDate": schedule.end_ms,
        "limit": schedule.limit,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _tick_options(schedule: Schedule, tick: TickId, now_ms: int, ticks: int) -> dict[str, Any]:
    """The options of one tick's job: the template's, and what whoever claims it needs to go on."""
    return _json(schedule.options.encode()) | {
        "repeat": _when(schedule) | {"count": ticks},
        "jobId": tick.job_id,
        "repeatJobKey": schedule.id,
        "prevMillis": tick.due_ms,
        "timestamp": now_ms,
        "delay": max(0, tick.due_ms - now_ms),
    }


# ── What BullMQ wrote ───────────────────────────────────────────────────────────────────────────────────────────────


def _record(name: str, reply: Any) -> _Record:
    """A schedule from its record, which anybody may have written: one without a job's name is none."""
    if isinstance(reply, BaseException):
        raise reply
    if not isinstance(reply, list) or len(reply) != 2 or reply[1] is None:
        return _Record(None, "")
    flat, score = reply[0] or [], _text(reply[1])
    fields = {_text(key): _text(value) for key, value in zip(flat[::2], flat[1::2], strict=True)}
    return _Record(_held(name, fields, score) if "name" in fields else None, score)


def _held(name: str, fields: Mapping[str, str], score: str) -> HeldSchedule:
    schedule = Schedule(
        id=name,
        job_name=fields["name"],
        data=fields.get("data", "{}"),
        options=fields.get("opts", "{}"),
        cron=fields.get("pattern"),
        zone=fields.get("tz", "UTC"),
        every_ms=_number(fields, "every"),
        start_ms=_number(fields, "startDate"),
        end_ms=_number(fields, "endDate"),
        limit=_number(fields, "limit"),
    )
    ticks, offset_ms = _number(fields, "ic") or 1, _number(fields, "offset")
    return HeldSchedule(schedule=schedule, next_ms=_time(score), ticks=ticks, offset_ms=offset_ms)


def _time(score: bytes | str) -> int:
    """A score as a time; anybody may have set it, infinity included."""
    return int(min(max(float(score), 0.0), _LATEST_MS))


def _number(fields: Mapping[str, str], name: str) -> int | None:
    try:
        return int(float(fields[name]))
    except (KeyError, ValueError, OverflowError):
        return None


def _json(text: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
