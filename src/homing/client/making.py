"""From what somebody enqueues to the job that carries it. Pure."""

from collections.abc import Mapping
from typing import Any, Protocol

from homing.backoff import Backoff
from homing.client.options import Terms
from homing.errors import EnqueueError, PayloadError
from homing.events.codec import MAX_PAYLOAD_BYTES, check_json, dump_json, encode_payload
from homing.events.event import Event
from homing.ids import DeliveryKey, JobId, new_event_id
from homing.outbox.headers import causing_trace, headers_for
from homing.queue.admission import refusal
from homing.queue.job import KeepRule, NewJob
from homing.trace import Trace

LONGEST_NAME = 200

_NO_TRACE = Trace(trace_id="")

Data = Event | Mapping[str, Any]
"""An event, which travels in the envelope that handlers read; or any JSON object, which travels as it is, for workers of others."""


class JobPolicy(Protocol):
    """The terms of all jobs of a kind."""

    @property
    def attempts(self) -> int: ...
    @property
    def backoff(self) -> Backoff: ...
    @property
    def keep_completed(self) -> KeepRule: ...
    @property
    def keep_failed(self) -> KeepRule: ...


def make_job(name: str, data: Data, terms: Terms, policy: JobPolicy, now_ms: int = 0) -> NewJob:
    """The job, as of `now_ms` by the engine's clock; raises `EnqueueError`, or its `PayloadError` kin for data, before anything is sent.

    An event gives its job its id, as it does in the outbox: the same object enqueued again is the same job.
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise EnqueueError(f"a job name has 1 to {LONGEST_NAME} characters, unlike {name!r}")
    trace = causing_trace()
    if isinstance(data, Event):
        fact = str(data.event_id)
        job_id, text = JobId(f"{name.replace(':', '_')}.{fact}"), _envelope(fact, data, trace)
    else:
        job_id, text = JobId(str(new_event_id())), _text(data)
    job = NewJob(
        id=job_id if terms.id is None else terms.id,
        name=name,
        data=text,
        timestamp_ms=now_ms,
        attempts=policy.attempts,
        backoff=policy.backoff,
        keep_completed=policy.keep_completed,
        keep_failed=policy.keep_failed,
        delay_seconds=terms.delay_seconds,
        priority=terms.priority,
        lifo=terms.lifo,
        deduplication=terms.deduplication,
        traceparent=None if trace is None else trace.traceparent,
    )
    return _admitted(job)


def _admitted(job: NewJob) -> NewJob:
    if (error := refusal(job)) is not None:
        raise EnqueueError(error)
    if DeliveryKey.parse(job.id) is not None:
        raise EnqueueError(
            f"{str(job.id)!r} is the id of a delivery's job, which the relay alone adds: choose another one"
        )
    return job


def _envelope(fact: str, event: Event, trace: Trace | None) -> str:
    """What no request caused has no trace id of its own: its worker names the trace after the job."""
    headers = headers_for(event.event_type, trace or _NO_TRACE) | ({"traceId": None} if trace is None else {})
    return dump_json({"eventId": fact, **headers, "payload": encode_payload(event)})


def _text(data: Data) -> str:
    if not isinstance(data, Mapping):
        raise EnqueueError(f"{data!r} is neither an event nor a mapping: give what the job's worker reads")
    value = dict(data)
    check_json(value, "the data")
    try:
        text = dump_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"the data is no JSON object: {error}") from error
    if (size := len(text.encode())) > MAX_PAYLOAD_BYTES:
        raise PayloadError(
            f"the data is {size:,} bytes of JSON, more than {MAX_PAYLOAD_BYTES:,}: store it and send its id"
        )
    return text
