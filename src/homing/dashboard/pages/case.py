"""A job as a case file: what became of it or why it is not running, what happened and when, what it carries, and what it belongs to."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from homing.dashboard.query import LONGEST
from homing.dashboard.timeline import tell
from homing.dashboard.visit import Visit, page
from homing.errors import Refused, ServerUnavailable, UnknownId
from homing.ids import DeliveryKey, JobId
from homing.ledger.ledger import Row
from homing.operations.events import Lineage, show_event
from homing.operations.explaining import Explained, explain_id
from homing.operations.flows import FlowNode, read_flow
from homing.operations.jobs import find_jobs
from homing.operations.overview import read_queue_names
from homing.queue.browse import JobState, ShownJob

MOST_QUEUES = 200
"""Queues that are asked for an id that several of them have."""

MOST_CHILDREN = 10
"""Children of one job that a case file shows; the page of its flow shows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything about one job. `lineage` is `None` for a job of another producer; `row` its delivery, `letter` its open dead letter."""

    job_id: str
    explained: Explained
    lineage: Lineage | None = None
    consumer: str | None = None
    row: Row | None = None
    letter: int | None = None

    @property
    def job(self) -> ShownJob | None:
        """The job, as far as the engine has it."""
        return None if self.explained.facts.engine is None else self.explained.facts.engine.job

    @property
    def queue(self) -> str | None:
        """Where it is or was."""
        return self.explained.facts.queue

    @property
    def is_over(self) -> bool:
        """Whether it will not run again by itself."""
        delivery = self.explained.facts.delivery
        if delivery is not None:
            return delivery.outcome is not None
        return self.job is not None and self.job.state is not None and self.job.state.finished

    @property
    def state(self) -> str:
        """Where it is on its way, in one word."""
        delivery = self.explained.facts.delivery
        if delivery is not None and delivery.outcome is not None:
            return delivery.outcome
        if self.job is not None and self.job.state is not None:
            return self.job.state.value
        return "pending" if delivery is not None else "unknown"

    @property
    def title(self) -> str:
        """Its consumer, or the name of the job."""
        return self.consumer or (self.job.name if self.job is not None and self.job.name else "A job without data")

    @property
    def deeds(self) -> list[str]:
        """What may help it now. The operations decide again."""
        state = None if self.job is None else self.job.state
        delivery = self.explained.facts.delivery
        found = []
        if state is JobState.FAILED:
            found.append("retry")
        if state is JobState.DELAYED:
            found.append("promote")
        if delivery is not None and delivery.outcome is None:
            found.append("cancel")
        if delivery is None and self.job is not None and state is not JobState.ACTIVE:
            found.append("remove")
        return found


async def show_case(visit: Visit) -> Response:
    """The case file of a job by its path."""
    return await _show(visit, visit.part("job"))


async def show_strange_case(visit: Visit) -> Response:
    """The same for ids that no path can carry."""
    job_id = visit.query.raw("id")
    if not job_id or len(job_id) > 1000:
        raise HTTPException(400, "id: say which job, in up to 1,000 characters")
    return await _show(visit, job_id)


async def open_case(visit: Visit, job_id: str) -> Case:
    """Everything that ledger and engine have of a job; `UnknownId` when that is nothing. A silent engine is part of it."""
    key = DeliveryKey.parse(job_id)
    explained = (await explain_id(visit.ledger, visit.engine, job_id, visit.query.text("queue", most=200)))[0]
    if key is None:
        return Case(job_id=job_id, explained=explained)
    try:
        lineage = await show_event(visit.ledger, key.event_id, payload=True)
    except UnknownId:
        return Case(job_id=job_id, explained=explained, consumer=key.consumer)
    rows = [row for row in lineage.deliveries if row["consumer"] == key.consumer]
    letters = [row["id"] for row in lineage.deaths if row["consumer"] == key.consumer and row["closed_at"] is None]
    return Case(
        job_id=job_id,
        explained=explained,
        lineage=lineage,
        consumer=key.consumer,
        row=rows[0] if rows else None,
        letter=letters[-1] if letters else None,
    )


async def _show(visit: Visit, job_id: str) -> Response:
    if _is_event(job_id):
        return RedirectResponse(visit.url(f"/events/{job_id}"), 303)
    if len(job_id) > 3 * LONGEST:
        raise HTTPException(400, f"no job has an id of {len(job_id):,} characters")
    try:
        case = await open_case(visit, job_id)
    except Refused:  # BullMQ counts ids per queue
        return visit.page("which.html", 300, job_id=job_id, queues=await places_of(visit, job_id))
    return visit.page(
        "case.html",
        case=case,
        story=tell(case.lineage, case.consumer, case.job),
        data=data_of(visit, case),
        fields=fields_of(visit, case.job),
        trace_id=None if case.lineage is None else case.lineage.trace_id,
        job_ids=job_ids_of(case.lineage),
        flow=await flow_of(visit, case),
        command_line=visit.command("jobs", "explain", case.job_id),
    )


async def places_of(visit: Visit, job_id: str) -> list[str]:
    """The queues that have a job with this id."""
    names = [row["queue"] for row in await read_queue_names(visit.ledger)][:MOST_QUEUES]
    found = await asyncio.gather(*(find_jobs(visit.ledger, visit.engine, [JobId(job_id)], name) for name in names))
    return [name for name, places in zip(names, found, strict=True) if places]


async def flow_of(visit: Visit, case: Case) -> list[tuple[int, FlowNode]]:
    """The jobs that it waits for and those that wait for it, with their levels; none for a job that is alone."""
    if case.job is None or case.job.name is None:
        return []
    job_id = JobId(case.explained.job_id)
    try:
        tree = await read_flow(visit.ledger, visit.engine, job_id, case.queue, most_children=MOST_CHILDREN)
    except (UnknownId, Refused, ServerUnavailable):  # it moved or the engine went away meanwhile: the rest can be shown
        return []
    return [] if tree is None else list(tree.walk())


def data_of(visit: Visit, case: Case) -> Any:
    """What it carries, masked: the recorded payload, or the job's own data."""
    if case.lineage is not None and case.lineage.payload is not None:
        return visit.desk.masks.read(case.lineage.payload)
    return None if case.job is None else visit.desk.masks.read(case.job.fields.get("data"))


def fields_of(visit: Visit, job: ShownJob | None) -> list[tuple[str, Any]]:
    """What else the engine stores of it, masked: options, progress, what it returned."""
    if job is None:
        return []
    named = {"Options": "opts", "Progress": "progress", "Returned": "returnvalue"}
    found = [(title, visit.desk.masks.read(job.fields.get(name))) for title, name in named.items()]
    return [(title, value) for title, value in found if value not in (None, 0, {}, "")]


def job_ids_of(lineage: Lineage | None) -> dict[str, str]:
    """The id of each delivery's job, by consumer. Pure."""
    if lineage is None:
        return {}
    rows = lineage.deliveries
    return {row["consumer"]: DeliveryKey(lineage.event_id, row["consumer"], row["generation"]).job_id for row in rows}


async def show_one_event(visit: Visit) -> Response:
    """A recorded event with all that came of it."""
    event_id = _read_event(visit.part("event"))
    lineage = await show_event(visit.ledger, event_id, payload=True)
    explained = {} if _is_settled(lineage.deliveries) else await _explain(visit, event_id)
    return visit.page(
        "event.html",
        lineage=lineage,
        explained=explained,
        payload=visit.desk.masks.read(lineage.payload),
        job_ids=job_ids_of(lineage),
        story=[each for row in lineage.deliveries for each in tell(lineage, row["consumer"], None)],
        command_line=visit.command("events", "show", event_id),
    )


async def _explain(visit: Visit, event_id: UUID) -> dict[str | None, Explained]:
    """Why deliveries that are pending are; `None` = why there is none yet."""
    found: dict[str | None, Explained] = {}
    for each in await explain_id(visit.ledger, visit.engine, str(event_id)):
        delivery = each.facts.delivery
        if delivery is None or delivery.outcome is None:
            found[None if delivery is None else delivery.consumer] = each
    return found


def _is_settled(rows: Sequence[Row]) -> bool:
    return bool(rows) and all(row["outcome"] is not None for row in rows)


def _is_event(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _read_event(text: str) -> UUID:
    if not _is_event(text):
        raise HTTPException(400, f"{text[:80]!r} is no id of an event")
    return UUID(text)


ROUTES = (
    page("/jobs/{job:path}", show_case),
    page("/job", show_strange_case),
    page("/events/{event}", show_one_event),
)
