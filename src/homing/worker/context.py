"""What the code of a run can ask without being handed it: the fields of its log lines, its trace, the ledger it belongs to, its counters."""

from collections.abc import Mapping
from contextvars import Token
from types import MappingProxyType, TracebackType
from typing import Any
from uuid import UUID

from homing.config.logs import log_context
from homing.metrics import Metrics
from homing.outbox.counting import run_metrics
from homing.outbox.expected import expected_ledger
from homing.queue.job import ClaimedJob
from homing.trace import Trace, trace_context
from homing.worker.run import Run


class RunContext:
    """Sets all of them for the block, for its task and what that starts; a job that is no run has log fields only."""

    __slots__ = ("_fields", "_ledger_id", "_metrics", "_run", "_tokens")

    def __init__(self, job: ClaimedJob, run: Run | None, ledger_id: UUID, metrics: Metrics) -> None:
        self._fields = _fields_of(job) if run is None else _fields_of_run(job, run)
        self._run = run
        self._ledger_id = ledger_id
        self._metrics = metrics

    def __enter__(self) -> None:
        self._tokens: list[Token[Any]] = [log_context.set(MappingProxyType({**log_context.get(), **self._fields}))]
        if self._run is not None:
            trace = Trace(trace_id=self._run.trace_id, traceparent=self._run.envelope.traceparent)
            self._tokens += (
                trace_context.set(trace),
                expected_ledger.set(self._ledger_id),
                run_metrics.set(self._metrics),
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for token in self._tokens:
            token.var.reset(token)


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
    return {
        "queue": job.lease.queue,
        "job": job.name,
        "job_id": job.lease.job_id,
        "attempt": job.attempt,
        "trace_id": run.trace_id,
        "event_id": str(run.event_id),
        "consumer": run.consumer,
    }
