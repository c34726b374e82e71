"""Jobs that wait for a worker which knows them: counted by kind, released by kind; the same from every engine."""

from homing.queue.job import ClaimedJob
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.queue.port import Held, Idle
from tests.contract.conftest import KEEP, QUEUE, Subject, ask
from tests.waiting import until

NEW = ParkedKind("new: with\nanything \x1b[31m in it", "mail.new")
NEWER = ParkedKind("send", "mail.send", version=3)


async def park(subject: Subject, kind: ParkedKind, seconds: float = 600.0) -> ClaimedJob:
    """Claim the next job and park it."""
    claimed = await subject.claim()
    finished = await subject.engine.park(claimed, kind, seconds, "nobody knows it", claim_next=None)
    assert finished.held is Held.HELD
    return claimed


async def test_parked_jobs_are_counted_and_unparked_by_kind(subject: Subject) -> None:
    """Each kind is released alone, in the order in which its jobs were parked, and no parking counts as a start or an attempt."""
    await subject.add("a", "b", "c")
    for kind in (NEW, NEWER, NEW):
        await park(subject, kind)
    assert await subject.engine.parked(QUEUE) == [ParkedJobs(NEW, 2), ParkedJobs(NEWER, 1)]
    assert (await subject.engine.counts(QUEUE)).delayed == 3
    assert await subject.engine.unpark(QUEUE, [ParkedKind("unheard of")]) == 0
    assert await subject.engine.unpark(QUEUE, [NEW]) == 2
    assert await subject.engine.unpark(QUEUE, [NEW]) == 0
    assert await subject.engine.parked(QUEUE) == [ParkedJobs(NEWER, 1)]
    first, second = await subject.claim(), await subject.claim()
    assert [job.lease.job_id for job in (first, second)] == ["a", "c"]
    assert (first.starts, first.attempt) == (1, 1)
    assert isinstance(await subject.engine.claim(QUEUE, ask()), Idle)


async def test_a_parked_job_comes_back_by_itself(subject: Subject) -> None:
    """When its time is up it is offered to everybody, and is parked no more."""
    await subject.add("a")
    await park(subject, NEW, 0.05)

    async def claimed() -> bool:
        return isinstance(await subject.engine.claim(QUEUE, ask()), ClaimedJob)

    await until(claimed)
    assert await subject.engine.parked(QUEUE) == []
    assert await subject.engine.unpark(QUEUE, [NEW]) == 0


async def test_a_job_that_waits_for_its_retry_is_not_unparked(subject: Subject) -> None:
    """What was parked once, has run since and waits for its back-off stays delayed, whatever notes are left of its parking."""
    await subject.add("a")
    await park(subject, NEW, 0.05)
    job: ClaimedJob | None = None
    while job is None:
        found = await subject.engine.claim(QUEUE, ask())
        job = found if isinstance(found, ClaimedJob) else None
    await subject.engine.retry(job, 600.0, spend_attempt=True, reason="", stack="", claim_next=None)
    assert await subject.engine.unpark(QUEUE, [NEW]) == 0
    assert (await subject.engine.counts(QUEUE)).delayed == 1


async def test_parking_needs_the_lease_and_claims_the_next(subject: Subject) -> None:
    """A run whose lease is gone parks nothing; one that holds it gets the next job in the same step."""
    await subject.add("a", "b")
    first = await subject.claim()
    finished = await subject.engine.park(first, NEW, 600.0, "", claim_next=ask())
    assert isinstance(finished.next, ClaimedJob)
    assert finished.next.lease.job_id == "b"
    await subject.engine.complete(finished.next, "1", mark=None, keep=KEEP, claim_next=None)
    assert (await subject.engine.park(finished.next, NEW, 600.0, "", claim_next=None)).held is not Held.HELD
    assert await subject.engine.parked(QUEUE) == [ParkedJobs(NEW, 1)]


async def test_starts_that_are_refunded_do_not_count(subject: Subject) -> None:
    """A start counts when it ends in a retry, and does not when it is given back or when that is asked for."""
    await subject.add("a")
    job = await subject.claim()
    await subject.engine.retry(job, 0, spend_attempt=True, reason="", stack="", claim_next=None)
    job = await subject.claim()
    assert job.starts == 2
    await subject.engine.release(job)
    job = await subject.claim()
    assert job.starts == 2
    await subject.engine.retry(job, 0, spend_attempt=False, reason="", stack="", claim_next=None, refund_start=True)
    assert (await subject.claim()).starts == 2
