"""Schedules, on every engine: one tick each, whoever upserts; made anew by whoever claims; nothing that is due is taken away."""

import json
from asyncio import gather
from dataclasses import replace
from typing import cast

import pytest

from homing.queue.browse import SteeredEngine
from homing.queue.port import Engine
from homing.queue.redis import RedisEngine
from homing.queue.schedules import HeldSchedule, Schedule, TickId, Upserted, read_tick
from tests.contract.conftest import KEEP, QUEUE, Subject

HOUR_MS = 3_600_000
NIGHTLY = Schedule(id="nightly", job_name="clean", cron="0 3 1 1 *", zone="Europe/Paris", options='{"attempts": 4}')
HOURLY = Schedule(id="hourly", job_name="count", every_ms=HOUR_MS, data='{"a": 1}')


async def test_upserting_again_keeps_the_schedule_and_its_tick(subject: Subject) -> None:
    """However often it is said, and in whichever order of its JSON, there is one schedule with one tick."""
    assert await subject.engine.upsert_schedules(QUEUE, [NIGHTLY]) == [Upserted.ADDED]
    held = await _held(subject.engine, "nightly")
    again = replace(NIGHTLY, options='{ "attempts" : 4 }', immediate=True)
    assert await subject.engine.upsert_schedules(QUEUE, [again]) == [Upserted.SAME]
    assert await _held(subject.engine, "nightly") == held
    assert held.schedule.is_as(NIGHTLY)
    assert (held.ticks, await _waiting_and_delayed(subject)) == (1, (0, 1))
    assert await subject.engine.due_times(QUEUE) == {"nightly": held.next_ms}
    traces = await subject.engine.inspect(QUEUE, [held.tick.job_id])
    assert [trace.name for trace in traces] == ["clean"]


async def test_an_interval_begins_at_once_and_keeps_its_phase(subject: Subject) -> None:
    """The first tick can be claimed now, with what the schedule gives its jobs; the next is one interval later, and made once."""
    await subject.engine.upsert_schedules(QUEUE, [HOURLY])
    claimed = await subject.claim()
    tick = read_tick(claimed.lease.job_id)
    assert tick is not None
    assert (tick.schedule, claimed.name, json.loads(claimed.data)) == ("hourly", "count", {"a": 1})
    advanced = await subject.engine.advance(QUEUE, tick)
    assert advanced is not None
    assert (advanced.next_ms, advanced.missed) == (tick.due_ms + HOUR_MS, 0)
    assert await subject.engine.advance(QUEUE, tick) is None
    held = await _held(subject.engine, "hourly")
    assert (held.next_ms, held.ticks, held.offset_ms) == (tick.due_ms + HOUR_MS, 2, tick.due_ms % HOUR_MS)
    assert await _waiting_and_delayed(subject) == (0, 1)


async def test_a_tick_has_the_terms_of_its_schedule(subject: Subject) -> None:
    """Attempts of the first tick and of the next."""
    await subject.engine.upsert_schedules(QUEUE, [replace(NIGHTLY, immediate=True)])
    first = await subject.claim()
    assert first.attempts == 4
    held = await _held(subject.engine, "nightly")
    advanced = await subject.engine.advance(QUEUE, held.tick)
    assert advanced is not None
    assert advanced.next_ms is not None
    assert await _steered(subject).promote(QUEUE, TickId("nightly", advanced.next_ms).job_id)
    assert (await subject.claim()).attempts == 4


async def test_a_changed_schedule_has_its_tick_by_its_new_terms(subject: Subject) -> None:
    """The tick that was not due makes way; there is one."""
    await subject.engine.upsert_schedules(QUEUE, [NIGHTLY])
    old = await _held(subject.engine, "nightly")
    assert await subject.engine.upsert_schedules(QUEUE, [replace(NIGHTLY, cron="0 3 1 7 *")]) == [Upserted.CHANGED]
    new = await _held(subject.engine, "nightly")
    assert (new.schedule.cron, new.ticks) == ("0 3 1 7 *", 1)
    assert new.next_ms != old.next_ms
    assert await _waiting_and_delayed(subject) == (0, 1)


async def test_a_tick_that_is_due_runs_although_its_schedule_changes(subject: Subject) -> None:
    """Waiting or between two attempts: the change takes nothing away, and the next tick is by the new terms."""
    await subject.engine.upsert_schedules(QUEUE, [HOURLY])
    assert await subject.engine.upsert_schedules(QUEUE, [replace(HOURLY, data='{"a": 2}')]) == [Upserted.CHANGED]
    due = await subject.claim()
    assert json.loads(due.data) == {"a": 1}
    await subject.engine.retry(due, 600.0, spend_attempt=True, reason="", stack="", claim_next=None)
    assert await subject.engine.upsert_schedules(QUEUE, [replace(HOURLY, every_ms=2 * HOUR_MS)]) == [Upserted.CHANGED]
    assert (await subject.engine.inspect(QUEUE, [due.lease.job_id]))[0].exists


@pytest.mark.parametrize("claimed", [False, True])
async def test_removing_takes_what_is_not_due(subject: Subject, claimed: bool) -> None:  # noqa: FBT001 - a case
    """The tick of the future leaves with its schedule; one that is due stays, wherever it is."""
    await subject.engine.upsert_schedules(QUEUE, [NIGHTLY, HOURLY])
    if claimed:
        await subject.claim()
    assert await subject.engine.remove_schedule(QUEUE, "nightly")
    assert await subject.engine.remove_schedule(QUEUE, "hourly")
    assert not await subject.engine.remove_schedule(QUEUE, "hourly")
    assert await subject.engine.schedules(QUEUE) == []
    counts = await subject.engine.counts(QUEUE)
    assert (counts.waiting, counts.active, counts.delayed) == (0 if claimed else 1, 1 if claimed else 0, 0)


async def test_a_limit_counts_ticks_and_an_end_ends(subject: Subject) -> None:
    """After the last tick there is none; saying the schedule again brings none back."""
    limited = replace(NIGHTLY, limit=2)
    await subject.engine.upsert_schedules(QUEUE, [limited])
    first = await _held(subject.engine, "nightly")
    second = await subject.engine.advance(QUEUE, first.tick)
    assert second is not None
    assert second.next_ms is not None
    last = await subject.engine.advance(QUEUE, TickId("nightly", second.next_ms))
    assert last is not None
    assert last.next_ms is None
    assert await subject.engine.upsert_schedules(QUEUE, [limited]) == [Upserted.SAME]
    assert await _waiting_and_delayed(subject) == (0, 2)
    past = replace(HOURLY, end_ms=1_000_000)
    assert await subject.engine.upsert_schedules(QUEUE, [past]) == [Upserted.OVER]


async def test_immediate_is_once(subject: Subject) -> None:
    """A new schedule fires now and then by its pattern; a change of it does not fire again once it has run."""
    immediate = replace(NIGHTLY, immediate=True)
    await subject.engine.upsert_schedules(QUEUE, [immediate])
    due = await subject.claim()
    tick = read_tick(due.lease.job_id)
    assert tick is not None
    assert await subject.engine.advance(QUEUE, tick)
    assert await subject.engine.upsert_schedules(QUEUE, [replace(immediate, data='{"b": 1}')]) == [Upserted.CHANGED]
    assert await _waiting_and_delayed(subject) == (0, 1)


async def test_a_missed_tick_is_added_once_beside_the_chain(subject: Subject) -> None:
    """It is claimed as any other tick, and makes no next one."""
    await subject.engine.upsert_schedules(QUEUE, [NIGHTLY])
    due_ms = 1_700_000_000_000
    tick = TickId("nightly", due_ms).job_id
    assert await subject.engine.add_run(QUEUE, NIGHTLY, tick)
    assert not await subject.engine.add_run(QUEUE, NIGHTLY, tick)
    missed = await subject.claim()
    assert (missed.lease.job_id, missed.name, missed.attempts) == (f"repeat:nightly:{due_ms}", "clean", 4)
    assert await subject.engine.advance(QUEUE, TickId("nightly", due_ms)) is None


async def test_a_tick_is_dropped_once_it_was_claimed_or_is_gone(subject: Subject) -> None:
    """One that waits, or whose time has not come, is still to be claimed."""
    await subject.engine.upsert_schedules(QUEUE, [NIGHTLY, HOURLY])
    ticks = [one.tick for one in await subject.engine.schedules(QUEUE)]
    gone = TickId("hourly", 5)
    assert await subject.engine.dropped(QUEUE, [*ticks, gone]) == [gone]
    claimed = await subject.claim()
    assert await subject.engine.dropped(QUEUE, ticks) == [read_tick(claimed.lease.job_id)]


async def test_what_a_flush_took_goes_on_where_it_was(subject: Subject) -> None:
    """A limit counts on, and an interval keeps its phase, from what somebody remembered."""
    limited = replace(NIGHTLY, limit=3)
    await subject.engine.upsert_schedules(QUEUE, [limited, HOURLY])
    held = {one.schedule.id: one for one in await subject.engine.schedules(QUEUE)}
    await subject.engine.advance(QUEUE, held["nightly"].tick)
    await subject.engine.advance(QUEUE, held["hourly"].tick)
    past = {one.schedule.id: one for one in await subject.engine.schedules(QUEUE)}
    subject.flush()
    assert await subject.engine.upsert_schedules(QUEUE, [limited, HOURLY], past) == [Upserted.ADDED] * 2
    back = {one.schedule.id: one for one in await subject.engine.schedules(QUEUE)}
    assert back["hourly"].next_ms == past["hourly"].next_ms
    assert back["hourly"].offset_ms == past["hourly"].offset_ms
    assert back["nightly"].ticks == past["nightly"].ticks == 2
    assert await _waiting_and_delayed(subject) == (0, 2)


async def test_a_time_whose_tick_has_run_is_passed_over(subject: Subject) -> None:
    """Somebody ran the next tick early and removed the schedule: said again, it goes on after that time."""
    await subject.engine.upsert_schedules(QUEUE, [NIGHTLY])
    held = await _held(subject.engine, "nightly")
    assert await _steered(subject).promote(QUEUE, held.tick.job_id)
    early = await subject.claim()
    await subject.engine.complete(early, "null", mark=None, keep=KEEP, claim_next=None)
    await subject.engine.remove_schedule(QUEUE, "nightly")
    assert await subject.engine.upsert_schedules(QUEUE, [NIGHTLY]) == [Upserted.ADDED]
    assert (await _held(subject.engine, "nightly")).next_ms == NIGHTLY.after(held.next_ms, held.next_ms)


async def test_ids_with_colons_and_unicode_are_ids(subject: Subject) -> None:
    """BullMQ lets a schedule have any id; a tick's time is what follows the last colon."""
    odd = replace(NIGHTLY, id="tenant:7:früh", job_name="räumen")
    await subject.engine.upsert_schedules(QUEUE, [odd])
    held = await _held(subject.engine, odd.id)
    assert read_tick(held.tick.job_id) == TickId(odd.id, held.next_ms)
    assert await subject.engine.remove_schedule(QUEUE, odd.id)
    assert await _waiting_and_delayed(subject) == (0, 0)


async def test_many_processes_upsert_many_schedules_at_once(subject: Subject) -> None:
    """Three engines that say the same, in different orders, at the same time: a schedule and a tick of each."""
    schedules = [replace(NIGHTLY, id=f"s{number}", immediate=number % 2 == 0) for number in range(150)]
    others = [RedisEngine(subject.server_url) for _ in range(2)] if subject.server_url else []
    engines: list[Engine] = [subject.engine, *others]
    for engine in others:
        await engine.open()
    answers = await gather(
        *(engine.upsert_schedules(QUEUE, schedules[:: -1 if at % 2 else 1]) for at, engine in enumerate(engines))
    )
    for engine in others:
        await engine.close()
    assert sum(answer is Upserted.ADDED for each in answers for answer in each) == 150
    assert len(await subject.engine.due_times(QUEUE)) == 150
    assert await _waiting_and_delayed(subject) == (75, 75)


def _steered(subject: Subject) -> SteeredEngine:
    return cast(SteeredEngine, subject.engine)


async def _held(engine: Engine, name: str) -> HeldSchedule:
    found = await engine.schedules(QUEUE, [name])
    assert len(found) == 1
    return found[0]


async def _waiting_and_delayed(subject: Subject) -> tuple[int, int]:
    counts = await subject.engine.counts(QUEUE)
    return counts.waiting, counts.delayed
