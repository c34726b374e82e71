"""Finding out what there is to explain: the ledger is asked first, then the engine, and a silent engine is part of the answer."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from homing.errors import ConfigurationError, ServerUnavailable, UnknownId
from homing.ids import DeliveryKey, JobId
from homing.ledger.ledger import Ledger, Row
from homing.operations.explain import DeliveryFacts, EventFacts, Facts, JobFacts, LetterFacts, Reason
from homing.operations.explain_job import explain
from homing.operations.jobs import find_jobs
from homing.operations.overview import ProcessState, read_processes
from homing.operations.waiting_children import read_children_facts
from homing.queue.browse import JobState, ShownJob, SteeredEngine
from homing.queue.parent import JobRef
from homing.schema.statement import load

EXPLAINED_EVENT = load("homing.operations", "explained_event")
EXPLAINED_DELIVERIES = load("homing.operations", "explained_deliveries")
FREE_ROW = load("homing.operations", "free_row")


@dataclass(frozen=True, slots=True)
class Explained:
    """One thing and its reasons; `job_id` is the newest generation's, or the event's id where nothing was routed."""

    job_id: str
    facts: Facts
    reasons: list[Reason]


async def explain_id(ledger: Ledger, engine: SteeredEngine, text: str, queue: str | None = None) -> list[Explained]:
    """Why this job, delivery or event is not running: one answer, or one for each delivery of an event.

    `text` is a job's id or an event's. Raises `UnknownId` when neither ledger nor engine knows it; an engine that is away is a reason.
    """
    key = DeliveryKey.parse(text)
    event_id = _event_id(text) if key is None else key.event_id
    if event_id is None:
        return [await _foreign(ledger, engine, JobId(text), queue)]
    event, deliveries, processes = await asyncio.gather(
        ledger.fetch_row(EXPLAINED_EVENT, event_id=event_id),
        ledger.fetch(EXPLAINED_DELIVERIES, event_id=event_id, consumer=None if key is None else key.consumer),
        read_processes(ledger),
    )
    if not deliveries:
        return [await _undelivered(ledger, engine, text, event, processes, queue=queue)]
    generation = None if key is None else key.generation
    return [await _delivery(ledger, engine, event_id, row, generation, processes=processes) for row in deliveries]


async def _delivery(
    ledger: Ledger,
    engine: SteeredEngine,
    event_id: UUID,
    row: Row,
    generation: int | None,
    *,
    processes: tuple[ProcessState, ...],
) -> Explained:
    job_id = DeliveryKey(event_id, row["consumer"], row["generation"]).job_id
    free = await ledger.fetch(FREE_ROW, event_id=event_id, consumer=row["consumer"])
    found, error = await _ask(engine, row["queue"], job_id, consumer=row["consumer"])
    facts = Facts(
        now=row["now"],
        queue=row["queue"],
        generation=generation,
        delivery=_delivery_facts(row, is_held=not free and row["outcome"] is None),
        engine=found,
        engine_error=error,
        processes=processes,
    )
    return Explained(job_id, facts, explain(facts))


async def _undelivered(
    ledger: Ledger,
    engine: SteeredEngine,
    text: str,
    event: Row | None,
    processes: tuple[ProcessState, ...],
    *,
    queue: str | None,
) -> Explained:
    """An event without a delivery, for that consumer or at all; without the event too, only the engine can know the id."""
    if event is None:
        return await _foreign(ledger, engine, JobId(text), queue)
    facts = Facts(now=event["now"], event=_event_facts(event), processes=processes)
    return Explained(text, facts, explain(facts))


async def _foreign(ledger: Ledger, engine: SteeredEngine, job_id: JobId, queue: str | None) -> Explained:
    """A job that no relay made: the engine alone knows it."""
    places, processes = await asyncio.gather(find_jobs(ledger, engine, [job_id], queue), read_processes(ledger))
    if job_id not in places:
        raise UnknownId(f"neither the ledger nor a queue knows {str(job_id)!r}: it was pruned long ago, or never was")
    where = places[job_id]
    facts = Facts(
        now=datetime.now(UTC), queue=where, engine=await _job_facts(engine, where, job_id, ""), processes=processes
    )
    return Explained(job_id, facts, explain(facts))


async def _ask(
    engine: SteeredEngine, queue: str, job_id: JobId, *, consumer: str
) -> tuple[JobFacts | None, str | None]:
    try:
        return await _job_facts(engine, queue, job_id, consumer), None
    except (ServerUnavailable, ConfigurationError) as error:  # the latter for a row whose queue no engine can have
        return None, str(error)


async def _job_facts(engine: SteeredEngine, queue: str, job_id: JobId, consumer: str) -> JobFacts:
    job, terms, counts, parked = await asyncio.gather(
        engine.show(queue, job_id), engine.terms(queue), engine.counts(queue), engine.parked(queue)
    )
    kinds = {(one.kind.job, one.kind.consumer) for one in parked}
    waits = job is not None and job.state is JobState.WAITING_CHILDREN
    children = await read_children_facts(engine, JobRef(queue, job_id)) if waits else None
    return JobFacts(
        job=job,
        terms=terms,
        running=counts.active,
        is_parked=_is_of(kinds, job, consumer),
        children=children,
    )


def _is_of(kinds: set[tuple[str, str]], job: ShownJob | None, consumer: str) -> bool:
    """Whether jobs of its kind are parked, and it is where they are."""
    return job is not None and job.state is JobState.DELAYED and (job.name or "", consumer) in kinds


def _event_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _event_facts(row: Row) -> EventFacts:
    return EventFacts(
        topic=row["topic"],
        created_at=row["created_at"],
        available_at=row["available_at"],
        published_at=row["published_at"],
        parked_error=row["parked_error"],
        is_due=row["is_due"],
        subscribers=tuple(row["subscribers"]),
    )


def _delivery_facts(row: Row, *, is_held: bool) -> DeliveryFacts:
    return DeliveryFacts(
        consumer=row["consumer"],
        queue=row["queue"],
        generation=row["generation"],
        opened_at=row["opened_at"],
        check_at=row["check_at"],
        vanished=row["vanished"],
        outcome=row["outcome"],
        settled_at=row["settled_at"],
        is_older=row["is_older"],
        names=frozenset(row["names"]),
        retired_at=row["retired_at"],
        is_foreign=row["is_foreign"],
        deadline_at=row["deadline_at"],
        letter=None if row["letter"] is None else _letter_facts(row),
        is_held=is_held,
    )


def _letter_facts(row: Row) -> LetterFacts:
    error = ": ".join(part for part in (row["error_class"], row["error_text"]) if part)
    return LetterFacts(
        id=row["letter"],
        kind=row["kind"],
        failed_at=row["failed_at"],
        error=error,
        closed_as=row["closed_as"],
    )
