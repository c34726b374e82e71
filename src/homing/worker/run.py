"""One run of one job: what it is about, and why it was told to end."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Protocol
from uuid import UUID

from homing.app.handlers import Handler, Job, Told
from homing.events.envelope import Envelope
from homing.events.event import Event
from homing.queue.job import ClaimedJob
from homing.trace import Span, Trace
from homing.worker.case import Case

_LAST_TIMESTAMP_MS = 253_402_300_799_000  # 9999-12-31T23:59:59Z: other producers may write any number


class Running(Protocol):
    """A handler at work, wherever it runs."""

    def cancel(self) -> object:
        """Tell it to end; it may take its time, or not listen."""
        ...

    def done(self) -> bool:
        """Whether it does nothing any more."""
        ...


class Telling(Protocol):
    """Where a run tells how it goes."""

    def tell(self, kind: Told, text: str) -> None:
        """Take it, from any thread."""
        ...


class FlowEnd(BaseException):
    """How waiting for children ends a run before its handler has: no error, and nothing that a handler should catch."""


class Cause(Enum):
    """Why Homing cancelled a run. A handler's own `CancelledError` has none of these."""

    TIMEOUT = "its attempt took too long"
    LEASE_LOST = "another run holds its lease"
    SHUTDOWN = "the worker stops"


@dataclass(slots=True, kw_only=True)
class Run:
    """A case that can be run: with its event, and the trace it belongs to. `limit_key`: what its queue limits it by, once it was read.

    `event_id` is the event's id, or for a job that no relay made its inbox id; `consumer` the name under which the ledger keeps the delivery;
    `generation` the delivery's, `None` for a job that no relay made.

    `traceparent`: what created its event, if that is known; `span`: its own span while it runs, if there are spans; `error_type`: the class of
    what its handler raised; `notes`: where it tells how it goes; `flow_end`: its handler was stopped where it waited for children.
    """

    case: Case
    job: ClaimedJob = field(init=False)
    handler: Handler = field(init=False)
    event_id: UUID = field(init=False)
    consumer: str = field(init=False)
    generation: int | None = field(init=False)
    event: Event
    envelope: Envelope
    trace_id: str
    traceparent: str | None = None
    span: Span | None = None
    error_type: str | None = None
    cause: Cause | None = None
    limit_key: str | None = None
    notes: Telling | None = None
    flow_end: FlowEnd | None = None
    _running: Running | None = field(default=None, repr=False)
    _told: asyncio.Future[None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        case = self.case
        self.job, self.handler = case.job, case.handler
        self.event_id, self.consumer, self.generation = case.event_id, case.consumer, case.generation

    @property
    def trace(self) -> Trace:
        """What belongs to it belongs to this: its span where it has one, else what created its event."""
        span = None if self.span is None else self.span.trace
        return Trace(trace_id=self.trace_id, traceparent=self.traceparent if span is None else span.traceparent)

    @property
    def view(self) -> Job:
        """What the handler may see."""
        return Job(
            id=self.job.lease.job_id,
            queue=self.job.lease.queue,
            name=self.job.name,
            consumer=self.consumer,
            event_id=self.event_id,
            trace_id=self.trace_id,
            attempt=self.job.attempt,
            attempts=self.handler.policy.attempts,
            generation=self.generation or 1,
            recorded_at=datetime.fromtimestamp(min(max(self.job.timestamp_ms, 0), _LAST_TIMESTAMP_MS) / 1000, UTC),
            _told_to_end=lambda: self.cause is not None,
            _tell=self.tell,
        )

    def tell(self, kind: Told, text: str) -> None:
        """Show something with the job, where somebody takes it."""
        if self.notes is not None:
            self.notes.tell(kind, text)

    @property
    def argument(self) -> Event | list[Event]:
        """What its handler gets when it runs alone."""
        return self.event if self.handler.batch is None else [self.event]

    @property
    def handled_by(self) -> Running | None:
        """The handler at work on it; the runs of a batch share one."""
        return self._running

    @property
    def ended(self) -> bool:
        """Whether the handler does nothing any more."""
        return self._running is None or self._running.done()

    def hand_to(self, running: Running) -> None:
        """Take the handler at work, which `cancel` ends; whoever runs it hears of its end by itself."""
        self._running = running
        if self.cause is not None:
            running.cancel()

    def let_go(self) -> None:
        """Forget the handler, which has ended: the two know each other, and would wait for the garbage collector together."""
        self._running = None

    def watch(self, running: Running) -> asyncio.Future[None]:
        """Take the handler at work, which `cancel` ends; a run that was cancelled before it began ends at once. Done once the run is told to end."""
        self._running = running
        self._told = asyncio.get_running_loop().create_future()
        if self.cause is not None:
            self._tell()
        return self._told

    def cancel(self, cause: Cause) -> None:
        """End the run; the first cause counts."""
        if self.cause is None:
            self.cause = cause
            self._tell()

    def _tell(self) -> None:
        if self._running is not None:
            self._running.cancel()
        if self._told is not None and not self._told.done():
            self._told.set_result(None)
