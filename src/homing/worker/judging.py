"""From the end of a run to its outcome; what must be buried is buried here, before the engine hears of it."""

import logging
import random
from dataclasses import replace
from typing import assert_never

from homing.deadletters.deadletters import DeadLetters, Kind
from homing.deadletters.report import ErrorReport, report_error, report_text
from homing.errors import DuplicateDelivery, ServerUnavailable
from homing.ledger.gate import (
    Adopt,
    Asked,
    Cancelled,
    Decision,
    Duplicate,
    Expire,
    FinishDead,
    GiveBack,
    Superseded,
    Unknown,
)
from homing.ledger.gate import (
    Run as MayRun,
)
from homing.queue.job import ClaimedJob
from homing.queue.outcome import Completed, Dead, GivenBack, LeaseLost, Outcome, Postponed, Retry, Waiting
from homing.queue.port import Held
from homing.worker.asking import ask_for_wait
from homing.worker.case import Case
from homing.worker.classify import Attempt, Fatal, classify
from homing.worker.endings import Died, Ending, Raised, Returned, Stopped, Torn, Unsure
from homing.worker.flows import WaitsForChildren
from homing.worker.gating import Gatekeeper
from homing.worker.leases import LeaseKeeper
from homing.worker.opening import Unreadable
from homing.worker.run import Cause, FlowEnd, Run

log = logging.getLogger("homing.worker")

UNSURE_SECONDS = 1.0
"""How long a job waits when a server did not answer and nothing is known."""


class Judge:
    """Turns endings into outcomes."""

    def __init__(self, gate: Gatekeeper, dead_letters: DeadLetters, leases: LeaseKeeper) -> None:
        self._gate = gate
        self._dead_letters = dead_letters
        self._leases = leases

    async def judge(self, run: Run, ending: Ending) -> Outcome:
        """What becomes of the run's job."""
        match ending:
            case Returned(result=result):
                return Completed(result)
            case Stopped(decision=decision):
                return await self._judge_decision(run.case, decision)
            case Raised(cause=Cause.SHUTDOWN):
                return GivenBack(Cause.SHUTDOWN.value)
            case Raised(cause=Cause.LEASE_LOST):
                return LeaseLost(Cause.LEASE_LOST.value)
            case Raised(error=error):
                return await self._judge_error(run, error)
            case Torn(error=torn):
                return await self._bury_torn(run.case, report_error(torn))
            case Unsure(reason=reason):
                return Postponed(UNSURE_SECONDS, reason, "interrupted")
            case Died(reason=reason):
                return await self._bury(run.case, "poison", report_text("ChildDied", reason))
        assert_never(ending)

    async def judge_unreadable(self, unreadable: Unreadable) -> Outcome:
        """Bury a job whose data no handler can read, with the data as it came."""
        return await self._bury(unreadable.case, "failed", unreadable.report.final("permanent"))

    async def _judge_flow(self, run: Run, end: FlowEnd) -> Outcome:
        if not isinstance(end, WaitsForChildren):
            return await self._bury(run.case, "failed", report_text("ChildFailed", str(end)).final("permanent"))
        if end.poll_seconds is None:
            return Waiting(str(end))
        return Postponed(end.poll_seconds, str(end), "waiting_children")

    async def _judge_error(self, run: Run, error: BaseException) -> Outcome:
        if isinstance(error, FlowEnd):
            return await self._judge_flow(run, error)
        attempt = Attempt(number=run.job.attempt, starts=run.job.starts, key=run.limit_key)
        policy = run.handler.policy
        if run.job.lease.queue != run.handler.queue:  # it comes from a former queue, whose limit is not known
            policy = replace(policy, limit=None, read_key=None, throttle="job")
        verdict = classify(error, attempt, policy, random.random)
        if policy.ask is not None and isinstance(verdict, Retry):
            verdict = await ask_for_wait(policy.ask, attempt.number, error, verdict)
        return await self._bury(run.case, "failed", verdict.report) if isinstance(verdict, Fatal) else verdict

    async def _judge_decision(self, subject: Case, decision: Decision) -> Outcome:
        match decision:
            case Duplicate(result=result):
                return _duplicate(subject, result)
            case Cancelled():
                return Completed(how="cancelled")
            case Superseded():
                return Completed(how="superseded")
            case FinishDead(letter=letter):
                return Dead("buried by an earlier run", letter=letter)
            case Unknown():
                job_id = subject.job.lease.job_id
                log.error("job %s names a delivery that the ledger does not have: it never runs", job_id)
                return Dead(
                    "unknown delivery: the ledger does not have it (pruned, another database, or a lost commit)"
                )
            case Expire(opened_at=opened_at):
                limit = subject.handler.policy.deadline_seconds
                text = f"opened at {opened_at}, not settled within {limit:g} s"
                return await self._bury(subject, "expired", report_text("DeadlineExceeded", text))
            case GiveBack():
                return Postponed(UNSURE_SECONDS, "another run rolled back meanwhile", "interrupted")
            case MayRun() | Adopt():
                raise AssertionError(f"{decision} is no reason to stop a run")
        assert_never(decision)

    async def _bury(self, subject: Case, kind: Kind, report: ErrorReport) -> Outcome:
        lost = await self._lease_lost(subject.job)
        if lost is not None:
            return lost
        letter = await self._dead_letters.bury(subject.death(kind, report))
        if letter is None:
            return await self._judge_decision(subject, await self._gate.ask(subject, Asked.BURY))
        log.error("%s is dead (%s), letter %d: %s", subject.consumer, kind, letter, report.summary)
        return Dead(report.summary, report.stack, letter)

    async def _bury_torn(self, subject: Case, report: ErrorReport) -> Outcome:
        """Rolled back: the row is pending, an ordinary death. Committed by the handler: it is done, the letter says torn."""
        lost = await self._lease_lost(subject.job)
        if lost is not None:
            return lost
        letter = await self._dead_letters.bury(subject.death("failed", report.final("permanent")))
        if letter is None:
            letter = await self._dead_letters.bury_torn(subject.death("torn", report))
        log.error("%s ended its transaction, letter %s: %s", subject.consumer, letter, report.summary)
        return Dead(report.summary, report.stack, letter)

    async def _lease_lost(self, job: ClaimedJob) -> Outcome | None:
        """A run buries only what it still holds."""
        try:
            held = await self._leases.confirm(job.lease)
        except ServerUnavailable as error:
            return Postponed(UNSURE_SECONDS, f"the lease could not be confirmed: {error}", "interrupted")
        return None if held is Held.HELD else LeaseLost(f"its lease is {held.value}")


def _duplicate(subject: Case, result: str | None) -> Outcome:
    """The row is done and stays so: the job ends, as the handler's `on_duplicate` has it."""
    if subject.handler.on_duplicate == "skip":
        return Completed(result or "null", "duplicate")
    error = DuplicateDelivery(f"{subject.consumer} has done {subject.event_id} in an earlier run; this one did nothing")
    return Dead(report_error(error).summary, how="duplicate")
