"""What people do to schedules. The ledger is told first, with who did it; an engine that is away follows with the next look."""

import json
from dataclasses import replace

from homing.clock import SystemClock
from homing.errors import Refused, ServerUnavailable, UnknownId
from homing.events.codec import dump_json
from homing.ids import JobId, new_event_id
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger
from homing.operations.schedules import ScheduleLine, list_schedules
from homing.queue.port import Engine
from homing.queue.schedules import tick_data
from homing.scheduler import Keeper
from homing.schema.statement import load

_HERE = "homing.operations"
PAUSE_SCHEDULE = load(_HERE, "pause_schedule")
RESUME_SCHEDULE = load(_HERE, "resume_schedule")
REMOVE_SCHEDULE = load(_HERE, "remove_schedule")


async def find_schedule(ledger: Ledger, engine: Engine, name: str, *, queue: str | None = None) -> ScheduleLine:
    """The schedule of a name; `UnknownId` where there is none, or several queues have one and none was named."""
    found = (await list_schedules(ledger, engine, queue=queue, name=name)).schedules
    if not found:
        where = "" if queue is None else f" in queue {queue!r}"
        raise UnknownId(f"there is no schedule {name!r}{where}: `homing schedules list` shows those that there are")
    if len(found) > 1:
        raise UnknownId(
            f"{len(found)} queues have a schedule {name!r}: say which, {', '.join(line.queue for line in found)}"
        )
    return found[0]


async def run_schedule(ledger: Ledger, engine: Engine, line: ScheduleLine, person: Person) -> JobId:
    """Let its job run now, once more than by the clock; the id of that job. Paused schedules too. Its ticks stay as they are."""
    now_ms = await _now_ms(engine)
    event_id = new_event_id()
    job_id = JobId(f"now-{event_id}")
    data = tick_data(line.schedule.data, line.name, now_ms, str(event_id))
    await keep_action(ledger, person, "run", _subject(line) | {"job_id": job_id}, affected=1)
    schedule = line.schedule if data is None else replace(line.schedule, data=_as_its_own(data, str(event_id)))
    await engine.add_run(line.queue, schedule, job_id)
    return job_id


async def pause_schedule(ledger: Ledger, engine: Engine, line: ScheduleLine, person: Person) -> None:
    """Make no tick until somebody resumes it, whatever code declares and whatever becomes of the engine's data. A tick that is due runs.

    Node's schedules too: one that a Node service sets again while it is paused is taken out again. `Refused` when it is paused already.
    """
    await _pause(ledger, engine, line, person, "pause")
    await _take_out(engine, line)


async def resume_schedule(ledger: Ledger, engine: Engine, line: ScheduleLine, person: Person) -> None:
    """Make ticks again, from the next one on: what the pause left out stays out."""
    async with ledger.transaction() as transaction:
        if not await transaction.fetch(RESUME_SCHEDULE, queue=line.queue, schedule=line.name):
            raise Refused(f"schedule {line.name!r} of queue {line.queue} is not paused")
        await keep_action(transaction, person, "resume", _subject(line), affected=1)
    try:
        await Keeper(ledger, engine).push(line.queue, [line.name], late=False)
    except ServerUnavailable as error:
        raise ServerUnavailable(f"{error}; the ledger has kept it, the engine follows when it is back") from error


async def remove_schedule(ledger: Ledger, engine: Engine, line: ScheduleLine, person: Person) -> None:
    """Forget it, with the tick whose time has not come. `Refused` while a worker that runs has it in its code: it would only come back."""
    if line.declared:
        raise Refused(
            f"schedule {line.name!r} of queue {line.queue} is in the code of a worker that runs: take it out there, or pause it"
        )
    if line.paused_at is None:
        await _pause(ledger, engine, line, person, "remove")
    else:
        await keep_action(ledger, person, "remove", _subject(line), affected=1)
    await _take_out(engine, line)
    await ledger.fetch(REMOVE_SCHEDULE, queue=line.queue, schedule=line.name)


async def _pause(ledger: Ledger, engine: Engine, line: ScheduleLine, person: Person, action: str) -> None:
    now_ms = await _now_ms(engine)
    async with ledger.transaction() as transaction:
        if not await transaction.fetch(PAUSE_SCHEDULE, queue=line.queue, schedule=line.name, now_ms=now_ms):
            raise Refused(f"schedule {line.name!r} of queue {line.queue} is paused already, or was removed meanwhile")
        await keep_action(transaction, person, action, _subject(line), affected=1)


async def _take_out(engine: Engine, line: ScheduleLine) -> None:
    try:
        await engine.remove_schedule(line.queue, line.name)
    except ServerUnavailable as error:
        raise ServerUnavailable(
            f"{error}; the ledger has kept that it is paused, the engine follows when it is back"
        ) from error


def _subject(line: ScheduleLine) -> dict[str, object]:
    return {"queue": line.queue, "schedule": line.name}


def _as_its_own(data: str, event_id: str) -> str:
    """The data under an id of their own: all ticks share one, and this is none."""
    return dump_json(json.loads(data) | {"eventId": event_id})


async def _now_ms(engine: Engine) -> int:
    return int((SystemClock().now().timestamp() + await engine.clock_offset_seconds()) * 1000)
