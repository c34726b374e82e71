"""Cancelling deliveries: settled for good in the ledger first, then taken out of the engine."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from homing.errors import HomingError
from homing.ids import DeliveryKey
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger, Row
from homing.queue.port import Engine
from homing.schema.statement import load

log = logging.getLogger("homing.operations")

CANCEL = load("homing.operations", "cancel")

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


async def cancel(ledger: Ledger, engine: Engine, job_ids: Sequence[str], person: Person) -> list[Cancelled]:
    """Cancel deliveries by the ids of their jobs; an answer for each, in order.

    Rows that a handler's transaction holds are not waited for. Each page is one transaction, which also keeps who did it; a job whose
    removal fails afterwards runs no more all the same, because its row is asked first.
    """
    person.require("cancel")
    answers: list[Cancelled] = []
    for start in range(0, len(job_ids), PAGE):
        answers += await _cancel_page(ledger, engine, job_ids[start : start + PAGE], person)
    return answers


async def _cancel_page(ledger: Ledger, engine: Engine, job_ids: Sequence[str], person: Person) -> list[Cancelled]:
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


async def _answer(engine: Engine, row: Row) -> Cancelled:
    job_id = _key(row).job_id
    if row["cancelled"]:
        return Cancelled(job_id, await _remove(engine, row))
    return Cancelled(job_id, read_answer(row), row["outcome"])


def read_answer(row: Row) -> Answer:
    """Why a delivery was not cancelled, from a row of `cancel.sql`. Pure."""
    if row["present_generation"] is None:
        return Answer.UNKNOWN
    if row["present_generation"] != row["generation"]:
        return Answer.REDRIVEN
    return Answer.RUNNING if row["outcome"] is None else Answer.SETTLED


async def _remove(engine: Engine, row: Row) -> Answer:
    """The ledger has decided; whatever the engine says now, the delivery does not begin another run."""
    job_id = _key(row).job_id
    try:
        removed = await engine.remove(row["queue"], job_id)
    except HomingError as error:
        log.warning("job %s is cancelled and stays in the engine for now: %s", job_id, error)
        return Answer.CANCELLED_NOT_REMOVED
    return Answer.CANCELLED if removed else Answer.CANCELLED_WHILE_RUNNING


def _key(row: Row) -> DeliveryKey:
    return DeliveryKey(row["event_id"], row["consumer"], row["generation"])
