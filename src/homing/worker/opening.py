"""From a claimed job to a run: open the envelope, find the handler, build the event. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from homing.deadletters.report import ErrorReport, report_error
from homing.errors import NewerPayloadError, PayloadError
from homing.events.envelope import Envelope, unseal
from homing.queue.job import ClaimedJob
from homing.queue.outcome import Postponed
from homing.worker.catalogue import Catalogue
from homing.worker.run import Run, inbox_id

PARKED_SECONDS = 30.0
"""How long a job waits for a worker that knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A job that no retry can make readable: it is buried with its data as it came."""

    job: ClaimedJob
    envelope: Envelope | None
    consumer: str
    topic: str
    report: ErrorReport


def open_run(job: ClaimedJob, catalogue: Catalogue) -> Run | Postponed | Unreadable:
    """Make a run of a claimed job, or say why it cannot run here."""
    queue = job.lease.queue
    envelope: Envelope | None = None
    refusal: PayloadError | None = None
    try:
        envelope = unseal(job.data)
    except PayloadError as error:
        refusal = error
    handler = catalogue.find(queue, job.name, envelope)
    if handler is None:
        return Postponed(PARKED_SECONDS, f"no handler of job {job.name!r} on queue {queue!r} in this worker", "unknown")
    if envelope is None or refusal is not None:
        report = report_error(refusal or PayloadError("no envelope"))
        return Unreadable(job=job, envelope=None, consumer=handler.consumer, topic=handler.topic, report=report)
    event_id = envelope.event_id if envelope.delivery is not None else inbox_id(job)
    try:
        event = handler.event.decode(envelope.payload, event_id=event_id, version=envelope.version)
    except NewerPayloadError as error:
        return Postponed(PARKED_SECONDS, str(error), "unknown")
    except PayloadError as error:
        consumer = handler.consumer if envelope.delivery is None else envelope.delivery.consumer
        return Unreadable(
            job=job, envelope=envelope, consumer=consumer, topic=handler.topic, report=report_error(error)
        )
    return Run(
        job=job,
        handler=handler,
        event=event,
        envelope=envelope,
        trace_id=envelope.trace_id or f"job-{queue}-{job.lease.job_id}",
        recorded_at=datetime.fromtimestamp(job.timestamp_ms / 1000, UTC),
    )
