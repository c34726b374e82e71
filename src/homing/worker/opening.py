"""From a claimed job to a run: open the envelope, find the handler, build the event. Pure."""

from dataclasses import dataclass

from homing.deadletters.report import ErrorReport, report_error
from homing.errors import NewerPayloadError, PayloadError
from homing.events.envelope import Envelope, unseal
from homing.ids import LAST_GENERATION, is_consumer_name
from homing.queue.job import ClaimedJob
from homing.queue.outcome import Parked
from homing.queue.parked import ParkedKind
from homing.trace import parse_traceparent
from homing.worker.case import Case, case_of, known_by_message
from homing.worker.catalogue import Catalogue
from homing.worker.run import Run

_LAST_YEAR = 9000  # so that a deadline can still be added

PARKED_SECONDS = 30.0
"""How long a job waits at most for a worker that knows it, before it is offered to every worker again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A job that no retry can make readable: it is buried with its data as it came."""

    case: Case
    report: ErrorReport


def open_run(job: ClaimedJob, catalogue: Catalogue) -> Run | Parked | Unreadable:
    """Make a run of a claimed job, or say why it cannot run here."""
    queue = job.lease.queue
    envelope: Envelope | None = None
    refusal: PayloadError | None = None
    try:
        envelope = _unseal(job.data)
    except PayloadError as error:
        refusal = error
    handler = catalogue.find(queue, job.name, envelope)
    if handler is None:
        reason = f"no handler of job {job.name!r} on queue {queue!r} in this worker"
        return Parked(_kind(job, envelope), PARKED_SECONDS, reason)
    case = case_of(job, handler, envelope)
    if envelope is None or refusal is not None:
        return Unreadable(case=case, report=report_error(refusal or PayloadError("no envelope")))
    try:
        case = known_by_message(case)
        event = handler.event.decode(envelope.payload, event_id=case.event_id, version=envelope.version)
    except NewerPayloadError as error:
        return Parked(_kind(job, envelope, envelope.version), PARKED_SECONDS, str(error))
    except BaseException as error:  # noqa: BLE001 - PayloadError, and whatever the event's own validators and upcasts raise, SystemExit too
        return Unreadable(case=case, report=report_error(error))
    parent = parse_traceparent(job.traceparent or envelope.traceparent)
    return Run(
        case=case,
        event=event,
        envelope=envelope,
        trace_id=envelope.trace_id or (parent.trace_id if parent else f"job-{queue}-{job.lease.job_id}"),
        traceparent=parent.text if parent else None,
    )


def _kind(job: ClaimedJob, envelope: Envelope | None, version: int = 0) -> ParkedKind:
    """What a worker must know to run this job."""
    delivery = None if envelope is None else envelope.delivery
    return ParkedKind(job.name, "" if delivery is None else delivery.consumer, version)


def _unseal(data: str) -> Envelope:
    """The envelope, its delivery being one that the ledger can be asked about: anybody may have written it."""
    envelope = unseal(data)
    delivery, opened_at = envelope.delivery, envelope.opened_at
    if delivery is None or opened_at is None:
        return envelope
    if not is_consumer_name(delivery.consumer):
        raise PayloadError(f"the job's data names the consumer {delivery.consumer!r}, which no delivery can have")
    if not 1 <= delivery.generation <= LAST_GENERATION:
        raise PayloadError(
            f"the job's data names generation {delivery.generation}: they go from 1 to {LAST_GENERATION}"
        )
    if opened_at.tzinfo is None or opened_at.year > _LAST_YEAR:
        raise PayloadError(f"the job's data says openedAt {opened_at.isoformat()}: no delivery was opened then")
    return envelope
