"""Keeps schedules: what is written down is held by the engine, and what the engine holds is written down."""

import logging
from collections.abc import Iterable, Sequence

from homing.clock import Clock, SystemClock
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger, Row
from homing.ledger.statements import EPOCHS, QUEUES
from homing.queue.port import Engine
from homing.queue.schedules import HeldSchedule, Schedule, TickId, Upserted
from homing.scheduler.planning import Known, Plan, plan
from homing.scheduler.rows import (
    ADOPT,
    FORGET,
    HELD,
    NOTE,
    SCHEDULES,
    held_columns,
    past_of,
    schedule_of,
    seen_columns,
    ticks_run,
)
from homing.service import Progress

log = logging.getLogger("homing.scheduler")


class Keeper:
    """Looks at the schedules of every queue, in any number of processes.

    What code declares is the ledger's, what others made in the engine is theirs: they change and remove it there, and the ledger remembers
    it for the next incarnation of the data. A pause is the ledger's whoever made the schedule: a paused one is not held.
    """

    def __init__(self, ledger: Ledger, engine: Engine, clock: Clock | None = None) -> None:
        self._ledger = ledger
        self._engine = engine
        self._clock = clock or SystemClock()
        self._unreadable: set[tuple[str, str]] = set()
        self._read_once: set[str] = set()

    async def tick(self) -> Progress:
        """One look at each queue; one that fails costs the others nothing, and its error is raised at the end."""
        failures: list[Exception] = []
        for row in await self._ledger.fetch(QUEUES):
            try:
                await self.keep(row["queue"])
            except Exception as error:  # noqa: BLE001 - raised below, after the other queues had their look
                failures.append(error)
        if failures:
            raise failures[0]
        return Progress.REST

    async def keep(self, queue: str) -> None:
        """Compare one queue, and put right what differs. What the engine holds counts only where its data is what the ledger knows."""
        due = await self._engine.due_times(queue)
        rows = await self._ledger.fetch(HELD, queue=queue)
        if not due and not rows:
            return
        epoch = await self._current_epoch(queue)
        if epoch is None:
            return
        decided = plan(map(_known, rows), due, await self._now_ms(), whole=queue not in self._read_once)
        await self._carry_out(queue, epoch, decided)
        self._read_once.add(queue)

    async def restore(self, queue: str) -> None:
        """Give an engine that forgot its schedules back, before the ledger hears of its new data.

        The last tick whose time has come since the ledger saw one runs late, once: whether it had run before is for the inbox to know. What the
        engine refuses is said, and tried again at every look; it keeps no job of the queue from coming back.
        """
        try:
            await self._restore(queue)
        except ServerUnavailable:
            raise
        except Exception:
            log.exception("queue %s: its schedules are not given back to the engine yet", queue)

    async def push(self, queue: str, names: Sequence[str], *, late: bool = True) -> None:
        """Make the engine hold these schedules as they are written down, unless they are paused.

        `late`: of one that the engine has lost, the last tick that came due meanwhile is added too.
        """
        rows = await self._ledger.fetch(SCHEDULES, queue=queue, schedules=list(names))
        await self._push(queue, [row for row in rows if row["paused_at"] is None], late=late)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _restore(self, queue: str) -> None:
        rows = await self._ledger.fetch(SCHEDULES, queue=queue, schedules=None)
        held = await self._engine.due_times(queue) if rows else {}
        lost = [row for row in rows if row["paused_at"] is None and row["schedule"] not in held]
        if lost:
            await self._push(queue, lost, late=True)
            log.warning("queue %s: %d of %d schedules are given back to the engine", queue, len(lost), len(rows))

    async def _push(self, queue: str, rows: Sequence[Row], *, late: bool) -> None:
        seen = {row["schedule"]: past for row in rows if (past := past_of(row)) is not None}
        held = await self._engine.due_times(queue) if seen else {}
        lost = {name: past for name, past in seen.items() if name not in held}
        now_ms = await self._now_ms()
        if late:
            await self._add_late(queue, lost.values(), now_ms)
        wanted = [row for row in rows if self._goes_on(row, now_ms)]
        answers = await self._engine.upsert_schedules(queue, [schedule_of(row) for row in wanted], lost)
        changed = [row["schedule"] for row, answer in zip(wanted, answers, strict=True) if answer is not Upserted.SAME]
        await self._note(queue, await self._engine.schedules(queue, changed) if changed else [])

    async def _add_late(self, queue: str, lost: Iterable[HeldSchedule], now_ms: int) -> None:
        """Before the schedules themselves: whoever dies in between leaves them lost, for the next one to find."""
        for past in lost:
            schedule = past.schedule
            if past.next_ms <= now_ms and self._is_readable(queue, schedule):
                tick = TickId(schedule.id, schedule.latest(past.next_ms, now_ms))
                await self._engine.add_run(queue, schedule, tick.job_id)

    async def _carry_out(self, queue: str, epoch: int, decided: Plan) -> None:
        if decided.push:
            await self.push(queue, decided.push)
        for name in decided.take:
            log.warning(
                "schedule %s of queue %s is paused, and somebody set it in the engine: taken out again", name, queue
            )
            await self._engine.remove_schedule(queue, name)
        if decided.forget:
            for row in await self._ledger.fetch(FORGET, queue=queue, schedules=decided.forget, epoch=epoch):
                log.info("schedule %s of queue %s was removed in the engine by whoever made it", row["schedule"], queue)
        if decided.adopt or decided.read:
            await self._read(queue, [*decided.adopt, *decided.read])
        if decided.overdue:
            await self._mend(queue, decided.overdue)

    async def _read(self, queue: str, names: Sequence[str]) -> None:
        """What moved on in the engine is noted; what others made or changed there is taken over, and what code declares is set right."""
        held = [one for one in await self._engine.schedules(queue, names) if one.schedule.is_whole]
        for row in await self._ledger.fetch(ADOPT, queue=queue, **held_columns(held)):
            log.info("schedule %s of queue %s was set in the engine; the ledger keeps it", row["schedule"], queue)
        await self._note(queue, held)
        rows = {row["schedule"]: row for row in await self._ledger.fetch(SCHEDULES, queue=queue, schedules=list(names))}
        strange = [one.schedule.id for one in held if not schedule_of(rows[one.schedule.id]).is_as(one.schedule)]
        if strange:
            log.warning(
                "queue %s: somebody changed %s, which code declares: set as code says", queue, ", ".join(strange)
            )
            await self.push(queue, strange)

    async def _mend(self, queue: str, names: Sequence[str]) -> None:
        """A tick that is due for long waits for a worker, or whoever claimed it made no next one: then it is made here."""
        held = {one.tick: one for one in await self._engine.schedules(queue, names)}
        now_ms = await self._now_ms()
        for tick in await self._engine.dropped(queue, list(held)):
            if held[tick].schedule.is_over(now_ms, held[tick].ticks):
                continue
            try:
                advanced = await self._engine.advance(queue, tick)
            except ValueError as error:  # what only its maker can read
                self._say_unreadable(queue, tick.schedule, error)
                continue
            if advanced is not None and advanced.next_ms is not None:
                log.warning("schedule %s of queue %s had no next tick: it has one again", tick.schedule, queue)

    def _goes_on(self, row: Row, now_ms: int) -> bool:
        """Whether there may be a next tick, and we can tell when."""
        schedule = schedule_of(row)
        return self._is_readable(row["queue"], schedule) and not schedule.is_over(now_ms, ticks_run(row, now_ms))

    def _is_readable(self, queue: str, schedule: Schedule) -> bool:
        try:
            schedule.check_readable()
        except ValueError as error:
            self._say_unreadable(queue, schedule.id, error)
            return False
        return True

    def _say_unreadable(self, queue: str, name: str, error: ValueError) -> None:
        """Once: a pattern that Node's library reads and ours does not stays as it is until somebody changes it."""
        if (queue, name) not in self._unreadable:
            self._unreadable.add((queue, name))
            log.error("schedule %s of queue %s gets no next tick from us: %s", name, queue, error)

    async def _note(self, queue: str, held: Iterable[HeldSchedule]) -> None:
        seen = list(held)
        if seen:
            names = [one.schedule.id for one in seen]
            await self._ledger.fetch(NOTE, queue=queue, schedules=names, **seen_columns(seen))

    async def _current_epoch(self, queue: str) -> int | None:
        """The epoch of the data that was just read; `None` while it is not the one that the ledger knows as current."""
        found = await self._engine.observe(queue)
        row = await self._ledger.fetch_row(EPOCHS, queue=queue, identity=found.identity)
        if row is None or row["identity_epoch"] is None or row["identity_epoch"] != row["current_epoch"]:
            return None
        return int(row["current_epoch"])

    async def _now_ms(self) -> int:
        offset_seconds = await self._engine.clock_offset_seconds()
        return int((self._clock.now().timestamp() + offset_seconds) * 1000)


def _known(row: Row) -> Known:
    return Known(row["schedule"], row["source"] == "code", row["paused"], row["next_ms"])
