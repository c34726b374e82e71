"""Enqueueing by a person: what is typed becomes the event that the handler takes, and who did it is kept."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from homing.app import Homing, Queue
from homing.client import Data, EnqueueOptions, Handle
from homing.errors import PayloadError
from homing.events.misfit import describe_misfit
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger


def data_for(app: Homing, queue: Queue, job: str, fields: Mapping[str, Any], *, elsewhere: bool) -> Data:
    """The event of the job's handler, made of these fields; the fields themselves for a job of another system, or of no known name.

    A `PayloadError` when they do not fit: a field that the event does not have is a mistake here, as in code.
    """
    handler = None if elsewhere else app.handlers_of(queue.name).get(job)
    if handler is None:
        return fields
    try:
        return handler.event.model_validate(dict(fields))
    except ValidationError as error:
        raise PayloadError(f"this is no {handler.event.__name__}: {describe_misfit(error)}") from error


async def enqueue(
    ledger: Ledger, queue: Queue, job: str, data: Data, *, options: EnqueueOptions, person: Person
) -> Handle[Any]:
    """Add the job; who does it is kept right after, with the id that the queue gave it. Errors are those of `Queue.enqueue`."""
    person.require("enqueue")
    handle = await queue.enqueue(job, data, **options)
    subject = {"queue": queue.name, "job": job, "id": handle.id, "deduplicated": handle.deduplicated}
    await keep_action(ledger, person, "enqueue", subject, affected=0 if handle.deduplicated else 1)
    return handle
