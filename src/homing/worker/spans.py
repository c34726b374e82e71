"""The spans of runs: one for each run, one for each call of a batch handler, one for each queue of a group that is settled.

No SDK set up, no span. A run's span is a trace of its own with a link to what created its event, which may be long over; or its child,
where `HOMING_TRACE_RELATION` says `parent`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Literal

from homing.queue.outcome import Dead, LeaseLost, Outcome, Retry, outcome_name
from homing.queue.port import Engine
from homing.trace import Span, find_spans, parse_traceparent
from homing.trace.conventions import (
    ATTEMPT,
    BATCH_COUNT,
    CONSUMER,
    CONVERSATION_ID,
    ENGINE,
    GENERATION,
    JOB_NAME,
    MESSAGE_ID,
    OUTCOME,
    TOPIC,
    Operation,
    server_attributes,
)
from homing.worker.run import Run

Relation = Literal["link", "parent"]


class RunSpans:
    """Starts the spans of the runs of one worker."""

    def __init__(self, engine: Engine, relation: Relation) -> None:
        self._engine = engine
        self._is_child = relation == "parent"

    def start(self, run: Run) -> Span | None:
        """The span of a run that begins now; `None` without an SDK."""
        spans = find_spans()
        if spans is None:
            return None
        parent = parse_traceparent(run.traceparent) if self._is_child else None
        return spans.start(
            Operation.PROCESS,
            run.job.lease.queue,
            {
                MESSAGE_ID: run.job.lease.job_id,
                CONVERSATION_ID: str(run.event_id),
                CONSUMER: run.consumer,
                TOPIC: run.handler.event.event_type.topic,
                JOB_NAME: run.job.name,
                ATTEMPT: run.job.attempt,
                GENERATION: run.generation,
                ENGINE: self._engine.name,
                **server_attributes(self._engine.address),
            },
            beneath=parent or "nothing",
            links=[] if parent else [run.traceparent],
        )


def note_outcome(span: Span, outcome: Outcome, error_type: str | None) -> None:
    """Say what a run came to; `error_type` is the class of what its handler raised. To be put off is no error."""
    name = outcome_name(outcome)
    span.note(OUTCOME, name)
    if isinstance(outcome, Retry | Dead | LeaseLost):
        span.fail(error_type or name)


def batch_span(runs: Sequence[Run]) -> AbstractContextManager[Span | None]:
    """The span of one call of a batch handler: what its code does belongs to all of the runs, and to none alone."""
    spans = find_spans()
    if spans is None:
        return nullcontext()
    handler = runs[0].handler
    return spans.start(
        Operation.PROCESS,
        handler.queue,
        {
            BATCH_COUNT: len(runs),
            CONSUMER: handler.consumer,
            TOPIC: handler.event.event_type.topic,
            JOB_NAME: handler.job_name,
        },
        links=[run.traceparent for run in runs],
    )


def settle_spans(runs: Iterable[Run]) -> AbstractContextManager[object]:
    """The spans of one statement that settles a group: one for each queue, linked to what created its events."""
    spans = find_spans()
    if spans is None:
        return nullcontext()
    links: dict[str, list[str | None]] = defaultdict(list)
    for run in runs:
        links[run.job.lease.queue].append(run.traceparent)
    with ExitStack() as stack:
        for queue, created in links.items():
            stack.enter_context(spans.start(Operation.SETTLE, queue, {BATCH_COUNT: len(created)}, links=created))
        return stack.pop_all()
