"""One job from claim to end: open, perform, judge, end, report."""

from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID

from homing.app.handlers import Guarantee as GuaranteeName
from homing.clock import Clock
from homing.errors import ServerUnavailable
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import HeldBack, Outcome, Parked, Postponed
from homing.queue.port import ClaimRequest, Engine, Finished
from homing.queue.schedules import is_tick
from homing.trace import name_of_error
from homing.worker.batches import Guarantee
from homing.worker.catalogue import Catalogue
from homing.worker.context import RunContext
from homing.worker.counting import RunCounter
from homing.worker.ending import end_job
from homing.worker.endings import Raised
from homing.worker.finishing import Finisher
from homing.worker.judging import UNSURE_SECONDS, Judge
from homing.worker.leases import LeaseKeeper
from homing.worker.opening import Unreadable, open_run
from homing.worker.permits import Permits
from homing.worker.reporting import Reporter
from homing.worker.run import Cause, Run
from homing.worker.spans import RunSpans, note_outcome
from homing.worker.telling import Notes
from homing.worker.ticking import Ticker


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
        counter: RunCounter,
        spans: RunSpans,
        ticker: Ticker,
        on_interrupted: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._guarantees = guarantees
        self._judge = judge
        self._leases = leases
        self._finisher = Finisher(engine)
        self._permits = Permits(engine)
        self._ledger_id = ledger_id
        self._clock = clock
        self._reporter = Reporter(clock)
        self._counter = counter
        self._spans = spans
        self._ticker = ticker
        self._on_interrupted = on_interrupted
        self._runs: dict[Lease, Run] = {}
        self._stuck: list[Run] = []

    async def execute(self, job: ClaimedJob, claim_next: Callable[[], ClaimRequest | None]) -> Finished:
        """Run the job to its end; never raises for what the job did. `claim_next` is asked just before the end."""
        started = self._clock.monotonic()
        self._leases.hold(job.lease)
        try:
            if is_tick(job.lease.job_id):
                job = await self._ticker.follow(job)
            opened = open_run(job, self._catalogue)
            run = opened if isinstance(opened, Run) else None
            notes = None if run is None else self._begin(run)
            with RunContext(job, run, self._ledger_id, self._counter.metrics):
                outcome = await self._outcome(opened)
                if notes is not None:
                    await notes.close()
                if run is not None and run.span is not None:
                    note_outcome(run.span, outcome, run.error_type)
                if isinstance(outcome, Postponed) and outcome.how == "interrupted":
                    self._on_interrupted()
                policy = None if run is None else run.handler.policy
                finished = await end_job(self._engine, self._finisher, job, outcome, policy, claim_next())
                seconds = self._clock.monotonic() - started
                self._reporter.report(job, run, outcome, finished, seconds)
                self._counter.count(job, opened, outcome, finished, seconds)
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
        return sum(self.stuck_by_name.values())

    @property
    def stuck_by_name(self) -> Mapping[tuple[str, str], int]:
        """The same by queue and name of the handler."""
        self._stuck = [run for run in self._stuck if not run.ended]
        handled = {run.handled_by: (run.handler.queue, run.handler.job_name) for run in self._stuck}
        return Counter(handled.values())

    def cancel_all(self, cause: Cause) -> None:
        """Tell every run to end."""
        for run in list(self._runs.values()):
            run.cancel(cause)

    def _begin(self, run: Run) -> Notes:
        run.span = self._spans.start(run)
        run.notes = notes = Notes(self._engine, run.job.lease)
        return notes

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
        if isinstance(ending, Raised):
            run.error_type = name_of_error(ending.error)
        if not run.ended:
            self._stuck.append(run)
        return await self._judge.judge(run, ending)
