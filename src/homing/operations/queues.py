"""Queues as people see and steer them. Settings are kept in the ledger first, where they survive the engine's data, then told to the engine."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from homing.errors import Refused, ServerUnavailable, UnknownId
from homing.events.codec import dump_json
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger
from homing.ledger.statements import QUEUES
from homing.operations.overview import ProcessState, read_processes
from homing.queue.browse import JobState, Obliterated, QueueTerms, SteeredEngine
from homing.queue.job import JobCounts
from homing.queue.parked import ParkedJobs
from homing.queue.port import QueueSettings
from homing.queue.settings import limits_of, settings_fields
from homing.schema.statement import load

SET_QUEUE = load("homing.operations", "set_queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue: its jobs by state, what holds them back, how many live workers serve it, and which jobs wait for code that knows them."""

    queue: str
    counts: JobCounts
    terms: QueueTerms
    workers: int
    parked: tuple[ParkedJobs, ...] = ()


async def list_queues(ledger: Ledger, engine: SteeredEngine) -> list[QueueLine]:
    """Every registered queue, in the order of their names."""
    rows, processes = await asyncio.gather(ledger.fetch(QUEUES), read_processes(ledger))
    return list(await asyncio.gather(*(_line(engine, row["queue"], processes) for row in rows)))


async def read_queue(ledger: Ledger, engine: SteeredEngine, queue: str) -> QueueLine:
    """One queue, before something is done to it; raises `UnknownId` when nobody registered it."""
    rows, processes = await asyncio.gather(ledger.fetch(QUEUES), read_processes(ledger))
    names = [row["queue"] for row in rows]
    if queue not in names:
        raise UnknownId(f"no queue {queue!r} is registered; there are: {', '.join(names) or 'none'}")
    return await _line(engine, queue, processes)


async def pause(ledger: Ledger, engine: SteeredEngine, queue: str, person: Person) -> None:
    """Let no worker start a job of the queue, ours or not, until somebody resumes it; what runs goes on. A flush does not end it."""
    await _set(ledger, engine, queue, QueueSettings(paused=True), action="pause", person=person)


async def resume(ledger: Ledger, engine: SteeredEngine, queue: str, person: Person) -> None:
    """Let workers start jobs of the queue again."""
    await _set(ledger, engine, queue, QueueSettings(paused=False), action="resume", person=person)


async def limit(ledger: Ledger, engine: SteeredEngine, queue: str, settings: QueueSettings, person: Person) -> None:
    """Bound how many jobs of the queue start, and how many run, over all workers. It holds until the code declares something new."""
    await _set(ledger, engine, queue, limits_of(settings), action="limit", person=person)


async def drain(ledger: Ledger, engine: SteeredEngine, queue: str, person: Person, *, delayed: bool) -> int:
    """Remove the jobs that wait; how many there were. Jobs of open deliveries come back with the next look.

    Who does it is kept right before, with the number of jobs that waited then.
    """
    counts = (await read_queue(ledger, engine, queue)).counts
    await keep_action(
        ledger, person, "drain", {"queue": queue, "delayed": delayed}, affected=waiting_jobs(counts, delayed=delayed)
    )
    return await engine.drain(queue, delayed=delayed)


async def clean(
    ledger: Ledger,
    engine: SteeredEngine,
    queue: str,
    state: JobState,
    person: Person,
    *,
    older_than_seconds: float,
    most: int,
) -> int:
    """Remove finished jobs that ended longer ago than that, the oldest first; how many there were. The ledger keeps its rows and letters.

    Who does it is kept right before, with the number of jobs at the most.
    """
    counts = (await read_queue(ledger, engine, queue)).counts
    there = min(counts.failed if state is JobState.FAILED else counts.completed, most)
    subject = {"queue": queue, "state": state.value, "older_than_seconds": older_than_seconds, "most": most}
    await keep_action(ledger, person, "clean", subject, affected=there)
    return await engine.clean(queue, state, older_than_seconds, most)


async def obliterate(ledger: Ledger, engine: SteeredEngine, queue: str, person: Person, *, force: bool) -> int:
    """Remove a queue's data from the engine, with every job in it; how many jobs there were.

    The queue is paused first and stays paused afterwards: the ledger makes the jobs of open deliveries again, and nothing of them runs
    before somebody resumes it. The pause and the deed are kept in one transaction, right before. `Refused` while jobs run, without `force`.
    """
    counts = (await read_queue(ledger, engine, queue)).counts
    if counts.active and not force:
        raise Refused(_RUNNING.format(queue=queue))
    jobs: int = sum(asdict(counts).values())
    async with ledger.transaction() as transaction:
        await transaction.fetch(SET_QUEUE, queue=queue, settings=dump_json({"paused": True}))
        await keep_action(transaction, person, "obliterate", {"queue": queue, "force": force}, affected=jobs)
    await engine.push_settings(queue, QueueSettings(paused=True))
    answer = await engine.obliterate(queue, force=force)
    await engine.push_settings(queue, QueueSettings(paused=True))
    match answer:
        case Obliterated.GONE:
            return jobs
        case Obliterated.RUNNING:
            raise Refused(_RUNNING.format(queue=queue))
        case Obliterated.NOT_PAUSED:
            raise Refused(f"somebody resumed queue {queue} meanwhile: part of its jobs is gone; say it again")


def waiting_jobs(counts: JobCounts, *, delayed: bool) -> int:
    """How many jobs a drain would take."""
    return counts.waiting + counts.prioritized + (counts.delayed if delayed else 0)


_RUNNING = "jobs of queue {queue} run: pause it and wait until they have ended, or say --force"


async def _set(
    ledger: Ledger, engine: SteeredEngine, queue: str, settings: QueueSettings, *, action: str, person: Person
) -> None:
    """The ledger first, with who did it, in one transaction; an engine that is away then does not know yet, which the error says."""
    fields = _fields(settings)
    async with ledger.transaction() as transaction:
        if not await transaction.fetch(SET_QUEUE, queue=queue, settings=dump_json(fields)):
            raise UnknownId(f"no queue {queue!r} is registered: `homing queues list` shows those that are")
        await keep_action(transaction, person, action, {"queue": queue, **fields}, affected=1)
    try:
        await engine.push_settings(queue, settings)
    except ServerUnavailable as error:
        raise ServerUnavailable(f"{error}; the ledger has kept it, say it again when the engine is back") from error


def _fields(settings: QueueSettings) -> Mapping[str, object]:
    fields: dict[str, object] = dict(settings_fields(settings))
    if isinstance(settings.paused, bool):
        fields["paused"] = settings.paused
    return fields


async def _line(engine: SteeredEngine, queue: str, processes: tuple[ProcessState, ...]) -> QueueLine:
    counts, terms, parked = await asyncio.gather(engine.counts(queue), engine.terms(queue), engine.parked(queue))
    serving = [one for one in processes if one.alive and one.role == "worker" and queue in one.queues]
    return QueueLine(queue=queue, counts=counts, terms=terms, workers=len(serving), parked=tuple(parked))
