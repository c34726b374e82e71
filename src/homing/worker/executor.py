"""One job from claim to end: open, perform, judge, end, report."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from homing.app.handlers import Guarantee as GuaranteeName
from homing.clock import Clock
from homing.errors import ServerUnavailable
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Completed, HeldBack, Outcome, Parked, Postponed
from homing.queue.port import Engine, Finished
from homing.queue.schedules import is_tick
from homing.trace import name_of_error
from homing.worker.batches import Guarantee
from homing.worker.calling import Caller
from homing.worker.catalogue import Catalogue
from homing.worker.context import RunContext, Surroundings
from homing.worker.counting import RunCounter
from homing.worker.ending import end_job
from homing.worker.endings import Ending, Raised
from homing.worker.finishing import Finisher
from homing.worker.gating import Gatekeeper
from homing.worker.judging import UNSURE_SECONDS, Judge
from homing.worker.leases import LeaseKeeper
from homing.worker.opening import Unreadable, open_run
from homing.worker.permits import Permits
from homing.worker.reporting import Reporter
from homing.worker.run import Cause, Run
from homing.worker.settling import Settler
from homing.worker.slot import Owner, Plain, Slot, Wanted
from homing.worker.spans import RunSpans, note_outcome
from homing.worker.telling import Notes
from homing.worker.ticking import Ticker
from homing.worker.together import Together, is_plain

log = logging.getLogger("homing.worker")

_FAILED = "a slot of %s failed; its job comes back when its lease ends"


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
        gate: Gatekeeper,
        settler: Settler,
        caller: Caller,
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
        self._cause: Cause | None = None
        self._surroundings = Surroundings(ledger_id, counter.metrics)
        self._together = Together(
            gate=gate,
            settler=settler,
            caller=caller,
            finisher=self._finisher,
            runs=self._runs,
            surroundings=self._surroundings,
            spawn=self._spawn,
            conclude=self._conclude,
            leave=self._leave,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._stuck: list[Run] = []

    def take_context(self) -> None:
        """Let runs begin in the present context from now on."""
        self._surroundings.take()

    def begin(self, jobs: Sequence[ClaimedJob], owner: Owner) -> None:
        """Run jobs that were claimed together, each to its end; nothing is raised for what a job does. The owner hears of every end."""
        started = self._clock.monotonic()
        self._leases.hold(job.lease for job in jobs)
        plain: list[Plain] = []
        for job in jobs:
            slot = Slot(job, owner, started)
            try:
                run = None if is_tick(job.lease.job_id) else self._open(slot)
            except Exception:  # our own mistake, as below
                log.exception(_FAILED, owner.queue)
                self._give_free([slot], [None])
                continue
            if run is None or not is_plain(run):
                self._spawn(self._execute(slot), [slot])
            else:
                plain.append(Plain(slot, run))
        if plain:
            self._together.receive(owner, plain)

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
        """Tell every run to end, also those of jobs that are on their way here."""
        self._cause = cause
        for run in list(self._runs.values()):
            run.cancel(cause)

    def _open(self, slot: Slot) -> Run | None:
        """Look what the job is; what can be run of it."""
        slot.opened = open_run(slot.job, self._catalogue)
        run = slot.run
        if run is not None:
            if self._cause is not None:
                run.cancel(self._cause)
            run.span = self._spans.start(run)
            if run.handler.takes("job"):
                run.notes = slot.notes = Notes(self._engine, run.job.lease)
        return run

    async def _execute(self, slot: Slot) -> None:
        """One job alone, from claim to end."""
        if slot.opened is None:
            slot.job = await self._ticker.follow(slot.job)
            self._open(slot)
        opened = slot.opened
        assert opened is not None  # noqa: S101 - it was opened now, if not before
        with self._context_of(slot):
            await self._end(slot, opened, await self._outcome(opened))

    def _conclude(self, slot: Slot, run: Run, ending: Ending | Completed) -> None:
        """Judge and end a plain run that did not simply return; or only end it, where its group could not."""
        self._spawn(self._conclude_alone(slot, run, ending), [slot])

    async def _conclude_alone(self, slot: Slot, run: Run, ending: Ending | Completed) -> None:
        with self._context_of(slot):
            outcome = ending if isinstance(ending, Completed) else await self._surely(self._judged(run, ending))
            await self._end(slot, run, outcome)

    async def _end(self, slot: Slot, opened: Run | Parked | Unreadable, outcome: Outcome) -> None:
        """Carry the outcome out in the engine, and say what came of the job."""
        job, run = slot.job, slot.run
        if slot.notes is not None:
            await slot.notes.close()
        if run is not None and run.span is not None:
            note_outcome(run.span, outcome, run.error_type)
        if isinstance(outcome, Postponed) and outcome.how == "interrupted":
            self._on_interrupted()
        policy = None if run is None else run.handler.policy
        if not slot.has_returned:
            slot.has_returned = True
            slot.owner.returned(1)
        wanted = slot.owner.ask(1)
        try:
            claim_next = None if wanted is None else wanted.request
            finished = await end_job(self._finisher, job, outcome, policy, claim_next)
        finally:
            slot.owner.heard(wanted)
        seconds = self._clock.monotonic() - slot.started
        try:
            self._reporter.report(job, run, outcome, finished, seconds)
            self._counter.count(job, opened, outcome, finished, seconds)
        finally:  # as below: the job that was claimed with this end must begin
            self._give_free([slot], [finished], wanted)

    def _leave(self, done: Sequence[Plain], wanted: Wanted | None) -> None:
        """Give back what plain runs that completed together held; what came of them is said in the next turn of the loop, so that the gate is
        asked for their followers first. No line of a follower can come before it: its handler waits for the gate."""  # noqa: D205, D209 - one thought
        asyncio.get_running_loop().call_soon(self._say, done, self._clock.monotonic())
        self._give_free([each.slot for each in done], [each.finished for each in done], wanted)

    def _say(self, done: Sequence[Plain], now: float) -> None:
        try:
            self._reporter.report_completed(done, now)
        finally:  # a filter of the application's log may fail, and the runs count all the same
            self._counter.count_completed(done, now)

    def _spawn(self, work: Coroutine[Any, Any, None], slots: Sequence[Slot]) -> None:
        queue = slots[0].owner.queue
        task = asyncio.create_task(work, name=f"slot:{queue}", context=self._surroundings.own())
        self._tasks.add(task)
        task.add_done_callback(partial(self._look_after, queue, slots))

    def _look_after(self, queue: str, slots: Sequence[Slot], task: asyncio.Task[None]) -> None:
        """What fails unexpectedly is our own mistake: it must cost no slot."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is None:
            return
        if not task.cancelled():
            log.error(_FAILED, queue, exc_info=task.exception())
        self._give_free(slots, [None] * len(slots))

    def _give_free(
        self, slots: Sequence[Slot], answers: Sequence[Finished | None], wanted: Wanted | None = None
    ) -> None:
        """Hand slots back to their owner, each once; `wanted` is what was asked for with these answers."""
        left = [(slot, answer) for slot, answer in zip(slots, answers, strict=True) if not slot.is_left]
        if not left:
            return
        for slot, answer in left:
            slot.is_left = True
            if answer is None:  # it failed wherever it was
                self._runs.pop(slot.job.lease, None)
        self._leases.drop([slot.job.lease for slot, _ in left])
        held = sum(not slot.has_returned for slot, _ in left)
        left[0][0].owner.left([answer for _, answer in left], slots=held, wanted=wanted)

    def _context_of(self, slot: Slot) -> RunContext:
        return RunContext(slot.job, slot.run, self._ledger_id, self._counter.metrics)

    async def _outcome(self, opened: Run | Parked | Unreadable) -> Outcome:
        match opened:
            case Parked():
                return opened
            case Unreadable():
                return await self._surely(self._judge.judge_unreadable(opened))
            case Run():
                return await self._surely(self._run(opened))

    async def _surely(self, judging: Awaitable[Outcome]) -> Outcome:
        """Where a server does not answer, nothing is known, and the job goes back as it came."""
        try:
            return await judging
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
        return await self._judged(run, ending)

    async def _judged(self, run: Run, ending: Ending) -> Outcome:
        if isinstance(ending, Raised):
            run.error_type = name_of_error(ending.error)
        if not run.ended:
            self._stuck.append(run)
        return await self._judge.judge(run, ending)
