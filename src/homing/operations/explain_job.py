"""Why is it not running, as far as the engine, the workers and the relay say. Pure."""

from collections.abc import Iterator

from homing.durations import describe_seconds
from homing.operations.explain import (
    NOTHING_TO_DO,
    START_RELAY,
    Because,
    DeliveryFacts,
    Facts,
    JobFacts,
    Reason,
    ledger_reasons,
)
from homing.operations.explain_children import children_reasons
from homing.queue.browse import JobState, ShownJob


def explain(facts: Facts) -> list[Reason]:
    """Every reason, the deciding one first; never empty for something that exists."""
    reasons = list(ledger_reasons(facts))
    if facts.engine_error is not None:
        away = Reason(
            because=Because.ENGINE_AWAY,
            text=facts.engine_error,
            remedy="start it again; nothing is lost meanwhile, the ledger has it",
        )
        return [*reasons, away]
    if facts.engine is None or (facts.delivery is not None and not _has_job(facts.delivery, reasons)):
        return reasons
    return [*reasons, *_engine(facts, facts.engine)]


def _has_job(delivery: DeliveryFacts, reasons: list[Reason]) -> bool:
    """Whether the engine has something to say of it: it is pending, or about to be adopted."""
    return delivery.outcome is None or any(reason.because is Because.ADOPTED_SOON for reason in reasons)


def _engine(facts: Facts, engine: JobFacts) -> Iterator[Reason]:
    job = engine.job
    if job is None or job.name is None or job.state is None:
        yield _missing(facts, job)
        return
    match job.state:
        case JobState.COMPLETED | JobState.FAILED:
            yield _ended(facts, job)
        case JobState.ACTIVE:
            yield _running(job)
        case JobState.WAITING_CHILDREN:
            yield from children_reasons(engine.children, job.added_at)
        case JobState.DELAYED:
            yield _delayed(facts, engine, job)
            yield from _nobody(facts)
        case JobState.WAITING | JobState.PRIORITIZED:
            yield from _waiting(facts, engine, job)


def _missing(facts: Facts, job: ShownJob | None) -> Reason:
    """No job, a ghost, or one in no list: the next look makes it again, where there is a relay to look."""
    delivery = facts.delivery
    because, what = Because.NO_JOB, "the engine has no job for it: not yet, not any more, or somebody removed it"
    if job is not None:
        because, what = Because.ADRIFT, "its job is in no list of the engine, where nobody claims it"
        if job.name is None:
            because, what = Because.GHOST, "the engine has lost its job and kept an empty shell of it"
    if delivery is None:
        return Reason(because=because, text=what, remedy="whoever added it must add it again: no ledger has it")
    if delivery.vanished:
        what += f"; that happened {delivery.vanished} times"
    if not facts.relay_lives:
        return Reason(because=because, text=what, remedy=START_RELAY, since=delivery.opened_at)
    if delivery.is_older:
        return Reason(
            because=because,
            text=f"{what}; the engine's data is newer than that, it lost some or is another one",
            remedy="nothing: it is looked for and dispatched again now, as fast as HOMING_LOOK_RATE lets",
            since=delivery.opened_at,
        )
    left = max(0.0, (delivery.check_at - facts.now).total_seconds())
    return Reason(
        because=because,
        text=f"{what}; it is looked for in {describe_seconds(left)} and dispatched again then",
        remedy=NOTHING_TO_DO,
        since=delivery.opened_at,
        until=delivery.check_at,
    )


def _ended(facts: Facts, job: ShownJob) -> Reason:
    how = "completed" if job.state is JobState.COMPLETED else f"failed: {job.reason}"
    if facts.delivery is not None:
        return Reason(
            because=Because.UNSETTLED_END,
            text=f"its job has {how}, and the ledger does not know: another system ran it, or PostgreSQL lost a commit",
            remedy="nothing: the next look settles, buries or runs it again" if facts.relay_lives else START_RELAY,
            since=job.finished_at,
        )
    if job.state is JobState.COMPLETED:
        return Reason(because=Because.COMPLETED, text="it has completed", remedy=NOTHING_TO_DO, since=job.finished_at)
    return Reason(
        because=Because.FAILED,
        text=f"it has {how}",
        remedy="mend the cause, then `homing jobs retry`",
        since=job.finished_at,
    )


def _running(job: ShownJob) -> Reason:
    if job.lease_seconds is None:
        return Reason(
            because=Because.LEASE_LOST,
            text="it was running, and its worker holds its lease no more: it died, hangs or was cut off",
            remedy="nothing: a worker of the queue takes it back within a minute",
            since=job.started_at,
        )
    who = f" on {job.worker}" if job.worker else ""
    return Reason(
        because=Because.RUNNING,
        text=f"it runs now{who}, as attempt {job.attempts_made + 1} of {job.attempts}",
        remedy="nothing; a run that lasts too long is ended by its time-out",
        since=job.started_at,
    )


def _delayed(facts: Facts, engine: JobFacts, job: ShownJob) -> Reason:
    left = 0.0 if job.due_at is None else max(0.0, (job.due_at - facts.now).total_seconds())
    when, why = f"in {describe_seconds(left)}", f": {job.reason}" if job.reason else ""
    because, text, remedy = Because.DELAYED, f"it was put off and is due {when}{why}", NOTHING_TO_DO
    if engine.is_parked:
        because, text = Because.PARKED, f"no worker that met it knows it; it is offered again {when}{why}"
        remedy = "deploy the code that knows it: it runs as soon as that has started"
    elif job.attempts_made:
        because = Because.RETRY_DUE
        text = f"attempt {job.attempts_made} of {job.attempts} failed, the next is due {when}{why}"
        remedy = "`homing jobs promote` runs it now"
    return Reason(because=because, text=text, remedy=remedy, since=job.started_at or job.added_at, until=job.due_at)


def _waiting(facts: Facts, engine: JobFacts, job: ShownJob) -> Iterator[Reason]:
    terms, queue = engine.terms, facts.queue
    if terms.paused:
        yield Reason(
            because=Because.PAUSED,
            text=f"queue {queue} is paused",
            remedy=f"`homing queues resume {queue}`; who paused it says `homing actions list`",
        )
    if terms.throttled_seconds:
        limit = f" ({terms.limit.jobs} starts in {describe_seconds(terms.limit.seconds)})" if terms.limit else ""
        yield Reason(
            because=Because.LIMITED,
            text=f"queue {queue} has used up its limit{limit} or waits for a provider, for {describe_seconds(terms.throttled_seconds)}",
            remedy=f"nothing, or `homing queues limit {queue}`",
        )
    if terms.concurrency is not None and engine.running >= terms.concurrency:
        yield Reason(
            because=Because.FULL,
            text=f"queue {queue} runs {engine.running} jobs at once, and no more than {terms.concurrency} may",
            remedy=f"nothing, or `homing queues limit {queue} --concurrency N`",
        )
    yield from _nobody(facts)
    yield Reason(
        because=Because.IN_LINE,
        text=f"it waits in queue {queue}: {_turn(job.ahead)}",
        remedy="nothing; more workers or more concurrency make the line shorter",
        since=job.added_at,
    )


def _turn(ahead: int | None) -> str:
    match ahead:
        case None:
            return "its turn has not come"
        case 0:
            return "it is next"
        case 1:
            return "one job is claimed before it"
        case _:
            return f"{ahead:,} jobs are claimed before it"


def _nobody(facts: Facts) -> Iterator[Reason]:
    """Whether any live worker would run it."""
    workers = facts.workers
    if facts.delivery is not None and facts.delivery.is_foreign:
        yield Reason(
            because=Because.FOREIGN,
            text=f"another system runs the jobs of {facts.delivery.consumer}, and the ledger does not see its workers",
            remedy="look whether that system's workers live and serve the queue",
        )
        return
    if not workers:
        yield Reason(
            because=Because.NO_WORKER,
            text=f"no live worker serves queue {facts.queue}",
            remedy=f"start `homing worker --queues {facts.queue}`",
        )
        return
    if facts.delivery is None or any(facts.delivery.names & set(worker.consumers) for worker in workers):
        return
    yield Reason(
        because=Because.UNKNOWN_TO_WORKERS,
        text=f"{len(workers)} live workers serve queue {facts.queue}, and none has a handler for {facts.delivery.consumer}",
        remedy="deploy the code that has it, or keep its old name as an alias",
    )
