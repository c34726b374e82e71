"""Ending a job in the engine: the call is made again until its answer is known."""

import asyncio
import logging
from typing import assert_never

from homing.app.options import Policy
from homing.errors import ServerUnavailable
from homing.ledger.gate import DONE_MARK, dead_mark
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.outcome import (
    Completed,
    Dead,
    GivenBack,
    HeldBack,
    KeyPaused,
    LeaseLost,
    Outcome,
    Parked,
    Paused,
    Postponed,
    Retry,
    Waiting,
)
from homing.queue.port import ClaimRequest, Completion, Engine, Finished, Held, Idle
from homing.worker.finishing import Finisher

log = logging.getLogger("homing.worker")

MAX_WAIT_SECONDS = 2.0


async def end_job(
    finisher: Finisher,
    job: ClaimedJob,
    outcome: Outcome,
    policy: Policy | None,
    claim_next: ClaimRequest | None,
) -> Finished:
    """Carry out the outcome; a lost answer is asked for again, since a second finish of the same lease changes nothing.

    `claim_next` asks for the next job of the queue in the same step. `MISSING` or `TAKEN` is an answer too: the engine lost the job or
    another run has it, and the ledger knows what happened.
    """
    wait_seconds = 0.05
    while True:
        try:
            return await _end(finisher, job, outcome, policy, claim_next)
        except ServerUnavailable as error:
            if wait_seconds == 0.05:
                log.warning("job %s has ended and waits for the engine: %s", job.lease.job_id, error)
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(wait_seconds * 2, MAX_WAIT_SECONDS)


def completion_of(job: ClaimedJob, completed: Completed, policy: Policy | None) -> Completion:
    """How a job completes in the engine: marked where the ledger has it as done, and kept as its handler's options say."""
    mark = DONE_MARK if completed.how in ("completed", "duplicate") else None
    return Completion(job, completed.result, mark, KeepRule() if policy is None else policy.keep_completed)


async def _end(
    finisher: Finisher,
    job: ClaimedJob,
    outcome: Outcome,
    policy: Policy | None,
    claim_next: ClaimRequest | None,
) -> Finished:
    engine = finisher.engine
    keep_failed = KeepRule() if policy is None else policy.keep_failed
    match outcome:
        case Completed():
            return await finisher.complete(completion_of(job, outcome, policy), claim_next)
        case Dead(reason=reason, stack=stack, letter=letter):
            mark = dead_mark(letter)
            return await engine.fail(job, reason, stack=stack, mark=mark, keep=keep_failed, claim_next=claim_next)
        case Retry(delay_seconds=delay, reason=reason, stack=stack):
            return await engine.retry(job, delay, spend_attempt=True, reason=reason, stack=stack, claim_next=claim_next)
        case Postponed() | HeldBack() | KeyPaused():
            return await _postpone(engine, job, outcome, claim_next)
        case Parked(kind=kind, delay_seconds=delay, reason=reason):
            return await engine.park(job, kind, delay, reason, claim_next=claim_next)
        case Paused():
            return await _pause(engine, job, outcome, claim_next)
        case Waiting() | GivenBack():
            return await _give_back(engine, job, outcome, claim_next)
        case LeaseLost():
            return Finished(Held.TAKEN)
    assert_never(outcome)


async def _give_back(
    engine: Engine, job: ClaimedJob, outcome: Waiting | GivenBack, claim_next: ClaimRequest | None
) -> Finished:
    if isinstance(outcome, Waiting):
        return await engine.wait_for_children(job, claim_next=claim_next)
    return Finished(await engine.release(job))


async def _postpone(
    engine: Engine, job: ClaimedJob, outcome: Postponed | HeldBack | KeyPaused, claim_next: ClaimRequest | None
) -> Finished:
    """Only a snooze counts as a start: a handler that always asks for later must meet an end."""
    if isinstance(outcome, KeyPaused):
        await engine.pause_key(job.lease.queue, outcome.key, outcome.delay_seconds)
    is_snoozed = isinstance(outcome, Postponed) and outcome.how == "snoozed"
    return await engine.retry(
        job,
        outcome.delay_seconds,
        spend_attempt=False,
        refund_start=not is_snoozed,
        reason=outcome.reason,
        stack="",
        claim_next=claim_next,
    )


async def _pause(engine: Engine, job: ClaimedJob, paused: Paused, claim_next: ClaimRequest | None) -> Finished:
    """The queue pauses before its job goes back, so that nobody claims it in between; the next claim can only wait."""
    await engine.throttle(job.lease.queue, paused.delay_seconds, paused.limit)
    held = await engine.release(job)
    return Finished(held, None if claim_next is None else Idle(paused.delay_seconds, limited=True))
