"""One job from claim to end: open, perform, judge, end, report."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from homing.app.handlers import Guarantee as GuaranteeName
from homing.clock import Clock
from homing.config.logs import log_fields
from homing.errors import ServerUnavailable
from homing.outbox.expected import expect_ledger
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Completed, HeldBack, Outcome, Parked, Postponed, outcome_name
from homing.queue.port import ClaimRequest, Engine, Finished, Held
from homing.trace import Trace, enter_trace
from homing.worker.batches import Guarantee
from homing.worker.catalogue import Catalogue
from homing.worker.ending import end_job
from homing.worker.judging import UNSURE_SECONDS, Judge
from homing.worker.leases import LeaseKeeper
from homing.worker.opening import Unreadable, open_run
from homing.worker.permits import Permits
from homing.worker.run import Cause, Run

log = logging.getLogger("homing.worker")


class Executor:
    """Executes claimed jobs; keeps the table of runs, by lease, so that each can be told to end.

    `on_interrupted` is called when a run could not be judged or settled, before the next job is claimed.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        catalogue: Catalogue,
        guarantees: Mapping[GuaranteeName, Guarantee],
        judge: Judge,
        leases: LeaseKeeper,
        ledger_id: UUID,
        clock: Clock,
        on_interrupted: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._guarantees = guarantees
        self._judge = judge
        self._leases = leases
        self._permits = Permits(engine)
        self._ledger_id = ledger_id
        self._clock = clock
        self._on_interrupted = on_interrupted
        self._runs: dict[Lease, Run] = {}
        self._stuck: list[Run] = []

    async def execute(self, job: ClaimedJob, claim_next: Callable[[], ClaimRequest | None]) -> Finished:
        """Run the job to its end; never raises for what the job did. `claim_next` is asked just before the end."""
        started = self._clock.monotonic()
        self._leases.hold(job.lease)
        try:
            opened = open_run(job, self._catalogue)
            run = opened if isinstance(opened, Run) else None
            with self._context(job, run):
                outcome = await self._outcome(opened)
                if isinstance(outcome, Postponed) and outcome.how == "interrupted":
                    self._on_interrupted()
                policy = None if run is None else run.handler.policy
                finished = await end_job(self._engine, job, outcome, policy, claim_next())
                self._report(job, run, outcome, finished, self._clock.monotonic() - started)
        finally:
            self._leases.drop(job.lease)
        return finished

    def cancel(self, lease: Lease, cause: Cause) -> bool:
        """Tell one run to end; `False` when it has ended already and only its finish is on the way."""
        run = self._runs.get(lease)
        if run is None:
            return False
        run.cancel(cause)
        return True

    def run_of_task(self, name: str) -> Run | None:
        """The run whose handler is the task of this name; any thread may ask."""
        return next((run for run in list(self._runs.values()) if name == f"run:{run.job.lease.job_id}"), None)

    @property
    def stuck(self) -> int:
        """Handlers that were told to end, were given up, and still run; a batch counts once."""
        self._stuck = [run for run in self._stuck if not run.ended]
        return len({run.handled_by for run in self._stuck})

    def cancel_all(self, cause: Cause) -> None:
        """Tell every run to end."""
        for run in list(self._runs.values()):
            run.cancel(cause)

    async def _outcome(self, opened: Run | Parked | Unreadable) -> Outcome:
        try:
            match opened:
                case Parked():
                    return opened
                case Unreadable():
                    return await self._judge.judge_unreadable(opened)
                case Run():
                    return await self._run(opened)
        except ServerUnavailable as error:
            return Postponed(UNSURE_SECONDS, str(error), "interrupted")

    async def _run(self, run: Run) -> Outcome:
        self._runs[run.job.lease] = run
        try:
            held_back = await self._permits.hold_back(run)
            if isinstance(held_back, HeldBack):
                return held_back
            ending = held_back or await self._guarantees[run.handler.guarantee].perform(run)
        finally:
            del self._runs[run.job.lease]
        if not run.ended:
            self._stuck.append(run)
        return await self._judge.judge(run, ending)

    @contextmanager
    def _context(self, job: ClaimedJob, run: Run | None) -> Iterator[None]:
        fields: dict[str, object] = {
            "queue": job.lease.queue,
            "job": job.name,
            "job_id": job.lease.job_id,
            "attempt": job.attempt,
            "trace_id": f"job-{job.lease.queue}-{job.lease.job_id}",
        }
        if run is not None:
            fields |= {"event_id": str(run.event_id), "consumer": run.consumer, "trace_id": run.trace_id}
        with log_fields(**fields):
            if run is None:
                yield
                return
            trace = Trace(trace_id=run.trace_id, traceparent=run.envelope.traceparent)
            with enter_trace(trace), expect_ledger(self._ledger_id):
                yield

    def _report(
        self, job: ClaimedJob, run: Run | None, outcome: Outcome, finished: Finished, duration_seconds: float
    ) -> None:
        level = logging.INFO if isinstance(outcome, Completed | HeldBack) else logging.WARNING
        if not log.isEnabledFor(level):
            return
        name = outcome_name(outcome)
        age_seconds = self._clock.now().timestamp() - job.timestamp_ms / 1000
        reason = getattr(outcome, "reason", "")
        held = "" if finished.held is Held.HELD else f" (lease {finished.held.value})"
        log.log(
            level,
            "%s %s in %.3f s, age %.3f s, attempt %d%s%s",
            job.name if run is None else run.consumer,
            name,
            duration_seconds,
            age_seconds,
            job.attempt,
            held,
            f": {reason}" if reason else "",
            extra={
                "outcome": name,
                "duration_s": round(duration_seconds, 6),
                "age_s": round(age_seconds, 3),
                "stalls": job.stalls,
                "starts": job.starts,
            },
        )
