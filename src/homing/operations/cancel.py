"""Cancelling deliveries: settled for good in the ledger first, then taken out of the engine."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from homing.errors import HomingError
from homing.events.envelope import foreign_id
from homing.ids import DeliveryKey, JobId
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger, Row
from homing.operations.flows import remove_with_children
from homing.operations.jobs import find_jobs
from homing.queue.browse import SteeredEngine
from homing.queue.parent import JobRef
from homing.schema.statement import load

log = logging.getLogger("homing.operations")

CANCEL = load("homing.operations", "cancel")
CANCEL_JOB = load("homing.operations", "cancel_job")

PAGE = 500
"""Deliveries that one transaction cancels."""


class Answer(Enum):
    """What became of one id."""

    CANCELLED = "cancelled"
    """It will not run any more."""
    CANCELLED_WHILE_RUNNING = "cancelled, but a run of it is under way: what that does outside the ledger may happen"
    CANCELLED_NOT_REMOVED = "cancelled; its job is still in the engine, and ends there as cancelled without running"
    RUNNING = "running: its handler holds it now; ask again when that has ended"
    SETTLED = "settled already"
    REDRIVEN = "redriven meanwhile: its job has another id now"
    UNKNOWN = "unknown: the ledger has no such delivery"

    @property
    def is_cancelled(self) -> bool:
        """Whether the delivery is cancelled now."""
        return self in (Answer.CANCELLED, Answer.CANCELLED_WHILE_RUNNING, Answer.CANCELLED_NOT_REMOVED)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer for one job id; `outcome` is how the delivery was settled before."""

    job_id: str
    answer: Answer
    outcome: str | None = None


async def cancel(ledger: Ledger, engine: SteeredEngine, job_ids: Sequence[str], person: Person) -> list[Cancelled]:
    """Cancel deliveries by the ids of their jobs, and jobs that no relay made, as far as they have not begun; an answer for each, in order.

    What waits below a cancelled job does not run either; a parent of it is told that it was cancelled. Rows that a handler's transaction
    holds are not waited for. Each page of deliveries, and each job, is one transaction, which also keeps who did it; a job whose removal
    fails afterwards runs no more all the same, because its row is asked first.
    """
    person.require("cancel")
    answers: list[Cancelled] = []
    for start in range(0, len(job_ids), PAGE):
        page = job_ids[start : start + PAGE]
        others = {
            job_id: await _cancel_job(ledger, engine, JobId(job_id), person) for job_id in page if _is_other(job_id)
        }
        cancelled = await _cancel_page(ledger, engine, page, person)
        answers += [others.get(each.job_id, each) for each in cancelled]
    return answers


def _is_other(job_id: str) -> bool:
    """Whether it is the id of a job that no relay made."""
    return DeliveryKey.parse(job_id) is None


async def _cancel_job(ledger: Ledger, engine: SteeredEngine, job_id: JobId, person: Person) -> Cancelled:
    """Settle a job of another producer, or of a flow, under its inbox id, and take it out of the engine."""
    queue = (await find_jobs(ledger, engine, [job_id])).get(job_id)
    job = None if queue is None else await engine.show(queue, job_id)
    if queue is None or job is None or job.name is None:
        return Cancelled(job_id, Answer.UNKNOWN)
    if job.lease_seconds is not None:
        return Cancelled(job_id, Answer.RUNNING)
    message = foreign_id(queue, job_id, read_timestamp(job.fields.get("timestamp")))
    async with ledger.transaction() as transaction:
        rows = await transaction.fetch(CANCEL_JOB, event_id=message, queue=queue, job_name=job.name)
        if rows:
            await keep_action(transaction, person, "cancel", {"jobs": [job_id]}, affected=1)
    if not rows:
        return Cancelled(job_id, Answer.SETTLED)
    return Cancelled(job_id, await _remove(engine, queue, job_id))


def read_timestamp(value: str | None) -> int:
    """A job's time as a worker reads it for the inbox: anybody may have written it. Pure."""
    try:
        return int(float(value or 0))
    except (ValueError, OverflowError):
        return 0


async def _cancel_page(
    ledger: Ledger, engine: SteeredEngine, job_ids: Sequence[str], person: Person
) -> list[Cancelled]:
    keys = {job_id: key for job_id in job_ids if (key := DeliveryKey.parse(job_id)) is not None}
    async with ledger.transaction() as transaction:
        rows = await transaction.fetch(
            CANCEL,
            event_ids=[key.event_id for key in keys.values()],
            consumers=[key.consumer for key in keys.values()],
            generations=[key.generation for key in keys.values()],
        )
        done = [_key(row).job_id for row in rows if row["cancelled"]]
        if done:
            await keep_action(transaction, person, "cancel", {"jobs": done}, affected=len(done))
    answers = {str(_key(row).job_id): await _answer(engine, row) for row in rows}
    return [answers.get(job_id, Cancelled(job_id, Answer.UNKNOWN)) for job_id in job_ids]


async def _answer(engine: SteeredEngine, row: Row) -> Cancelled:
    job_id = _key(row).job_id
    if row["cancelled"]:
        return Cancelled(job_id, await _remove(engine, row["queue"], job_id))
    return Cancelled(job_id, read_answer(row), row["outcome"])


def read_answer(row: Row) -> Answer:
    """Why a delivery was not cancelled, from a row of `cancel.sql`. Pure."""
    if row["present_generation"] is None:
        return Answer.UNKNOWN
    if row["present_generation"] != row["generation"]:
        return Answer.REDRIVEN
    return Answer.RUNNING if row["outcome"] is None else Answer.SETTLED


async def _remove(engine: SteeredEngine, queue: str, job_id: JobId) -> Answer:
    """The ledger has decided; whatever the engine says now, the job does not begin another run, nor does what waits below it."""
    try:
        removed = await remove_with_children(engine, JobRef(queue, job_id))
    except HomingError as error:
        log.warning("job %s is cancelled and stays in the engine for now: %s", job_id, error)
        return Answer.CANCELLED_NOT_REMOVED
    return Answer.CANCELLED if removed else Answer.CANCELLED_WHILE_RUNNING


def _key(row: Row) -> DeliveryKey:
    return DeliveryKey(row["event_id"], row["consumer"], row["generation"])
