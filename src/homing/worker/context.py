"""What the code of a run can ask without being handed it: the fields of its log lines, its trace, the ledger it belongs to, its counters."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from contextvars import Context, Token, copy_context
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any
from uuid import UUID

from homing.config.logs import log_context
from homing.metrics import Metrics
from homing.outbox.counting import run_metrics
from homing.outbox.expected import expected_ledger
from homing.queue.job import ClaimedJob
from homing.trace import Span, Trace, enter_trace, trace_context
from homing.worker.run import Run
from homing.worker.spans import batch_span

_FIELDS_OF_ONE = frozenset({"job_id", "event_id", "attempt", "span_id"})


class RunContext:
    """Sets all of them for the block, for its task and what that starts; a job that is no run has log fields only.

    The span of the run, if it has one, is entered with it and ends with it.
    """

    __slots__ = ("_fields", "_ledger_id", "_metrics", "_run", "_span", "_tokens")

    def __init__(self, job: ClaimedJob, run: Run | None, ledger_id: UUID, metrics: Metrics) -> None:
        self._fields = _fields_of(job) if run is None else _fields_of_run(job, run)
        self._run = run
        self._span = None if run is None else run.span
        self._ledger_id = ledger_id
        self._metrics = metrics

    def __enter__(self) -> None:
        self._tokens: list[Token[Any]] = [log_context.set(MappingProxyType({**log_context.get(), **self._fields}))]
        if self._span is not None:
            self._span.__enter__()
        if self._run is not None:
            self._tokens += (
                trace_context.set(self._run.trace),
                expected_ledger.set(self._ledger_id),
                run_metrics.set(self._metrics),
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for token in self._tokens:
            token.var.reset(token)
        if self._span is not None:
            self._span.__exit__(kind, error, at)


class Surroundings:
    """Makes the context in which the handler of a plain run works: the worker's own, with the run's log fields, trace, ledger and counters."""

    def __init__(self, ledger_id: UUID, metrics: Metrics) -> None:
        self._ledger_id = ledger_id
        self._metrics = metrics
        self._own = Context()
        self._of_runs = Context()
        self._own_fields: Mapping[str, object] = {}

    def take(self) -> None:
        """Take the present context as the worker's own."""
        self._own, self._of_runs = copy_context(), copy_context()
        self._of_runs.run(expected_ledger.set, self._ledger_id)
        self._of_runs.run(run_metrics.set, self._metrics)
        self._own_fields = log_context.get()

    def own(self) -> Context:
        """The worker's own, for work that is no single run's."""
        return self._own.copy()

    def fields_of(self, run: Run) -> Mapping[str, object]:
        """The fields of all log lines of a run."""
        return _FieldsOfRun(self._own_fields, run)

    def of(self, run: Run, fields: Mapping[str, object]) -> Context:
        """The context of one run, which nobody else changes or sees."""
        context = self._of_runs.copy()
        context.run(_enter, fields, run.trace)
        return context


class _FieldsOfRun(Mapping[str, object]):
    """The fields of a run's log lines, put together when somebody asks for one: most handlers log nothing."""

    __slots__ = ("_own", "_run", "_whole")

    def __init__(self, own: Mapping[str, object], run: Run) -> None:
        self._own = own
        self._run = run
        self._whole: Mapping[str, object] | None = None

    def __getitem__(self, name: str) -> object:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def _fields(self) -> Mapping[str, object]:
        if self._whole is None:
            self._whole = {**self._own, **_fields_of_run(self._run.job, self._run)}
        return self._whole


def _enter(fields: Mapping[str, object], trace: Trace) -> None:
    log_context.set(fields)
    trace_context.set(trace)


class BatchContext:
    """The same for one call for many runs, with its own span: its fields are those that the runs share, its trace is the first run's."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._stack = ExitStack()

    def __enter__(self) -> None:
        first = self._runs[0]
        with ExitStack() as stack:
            span = stack.enter_context(batch_span(self._runs))
            own = None if span is None else span.trace
            trace = first.trace if own is None else replace(own, trace_id=first.trace_id)
            fields = {**_shared_fields(), **_fields_of_batch(first, span)}
            stack.callback(log_context.reset, log_context.set(MappingProxyType(fields)))
            stack.enter_context(enter_trace(trace))
            self._stack = stack.pop_all()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, at)


def _fields_of(job: ClaimedJob) -> Mapping[str, object]:
    lease = job.lease
    return {
        "queue": lease.queue,
        "job": job.name,
        "job_id": lease.job_id,
        "attempt": job.attempt,
        "trace_id": f"job-{lease.queue}-{lease.job_id}",
    }


def _fields_of_run(job: ClaimedJob, run: Run) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "queue": job.lease.queue,
        "job": job.name,
        "job_id": job.lease.job_id,
        "attempt": job.attempt,
        "trace_id": run.trace_id,
        "event_id": str(run.event_id),
        "consumer": run.consumer,
        "topic": run.handler.event.event_type.topic,
    }
    if run.span is not None and run.span.span_id is not None:
        fields["span_id"] = run.span.span_id
    return fields


def _shared_fields() -> Mapping[str, object]:
    """The fields around a batch: whoever filled it first may be long gone."""
    return {name: value for name, value in log_context.get().items() if name not in _FIELDS_OF_ONE}


def _fields_of_batch(first: Run, span: Span | None) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "queue": first.handler.queue,
        "job": first.handler.job_name,
        "trace_id": first.trace_id,
        "consumer": first.handler.consumer,
        "topic": first.handler.event.event_type.topic,
    }
    return fields if span is None or span.span_id is None else fields | {"span_id": span.span_id}
