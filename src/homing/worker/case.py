"""A claimed job as the ledger knows it: which delivery it is, and what a death of it would be. Readable or not."""

from dataclasses import dataclass, replace
from uuid import UUID

from homing.app.handlers import Handler
from homing.app.messages import message_in
from homing.deadletters.deadletters import Death, Kind
from homing.deadletters.report import ErrorReport
from homing.events.envelope import Envelope, foreign_id
from homing.ledger.gate import Asking
from homing.queue.flows import failed_child
from homing.queue.job import ClaimedJob
from homing.queue.schedules import is_tick
from homing.records import quickly_made


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The delivery behind a job. `consumer` is the ledger's name for it, not the handler's own; `generation` is `None`
    for a job that no relay made, whose `event_id` is its inbox id."""  # noqa: D205, D209 - one thought

    job: ClaimedJob
    handler: Handler
    event_id: UUID
    consumer: str
    generation: int | None

    @property
    def asking(self) -> Asking:
        """What the gate must know of it."""
        return Asking(
            generation=self.generation,
            mark=self.job.mark,
            stalls=self.job.stalls,
            deferred_failure=self.job.deferred_failure is not None and failed_child(self.job.deferred_failure) is None,
            deadline_seconds=self.handler.policy.deadline_seconds,
        )

    def death(self, kind: Kind, report: ErrorReport) -> Death:
        """Its dead letter, with the data as it came."""
        return Death(
            event_id=self.event_id,
            consumer=self.consumer,
            generation=self.generation,
            queue=self.job.lease.queue,
            job_name=self.job.name,
            job_id=self.job.lease.job_id,
            topic=self.handler.topic,
            kind=kind,
            data=self.job.data,
            error=report,
            attempts_made=self.job.attempt,
            starts=self.job.starts,
        )


def case_of(job: ClaimedJob, handler: Handler, envelope: Envelope | None) -> Case:
    """The case of a job: by the delivery that its data names, else by its queue, id and time."""
    delivery = None if envelope is None else envelope.delivery
    if delivery is None:
        event_id = foreign_id(job.lease.queue, job.lease.job_id, job.timestamp_ms)
        return Case(job=job, handler=handler, event_id=event_id, consumer=handler.consumer, generation=None)
    return Case(
        job=job,
        handler=handler,
        event_id=delivery.event_id,
        consumer=delivery.consumer,
        generation=delivery.generation,
    )


def known_by_message(case: Case) -> Case:
    """The same case under the inbox id that its handler's `message_id` gives to a job of another producer.

    A schedule's tick is named by its own id: all of them carry the same data. Raises whatever reading the data raises, `PayloadError` where
    nothing names the message.
    """
    message_id = case.handler.message_id
    if message_id is None or case.generation is not None or is_tick(case.job.lease.job_id):
        return case
    return replace(case, event_id=message_in(case.job.data, message_id))
