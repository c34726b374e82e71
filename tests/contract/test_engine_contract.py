"""What every engine promises: adding, claiming, finishing, retrying."""

import asyncio
import json
import time
from itertools import count

import pytest

from homing.backoff import Backoff
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, JobCounts, JobTrace, KeepRule, Lease
from homing.queue.port import Accepted, Held, Idle, Limit, Refused
from tests.contract.conftest import KEEP, QUEUE, Subject, ask, job
from tests.waiting import until

NOTHING = JobTrace(exists=False)


async def test_a_job_comes_out_as_it_went_in(subject: Subject) -> None:
    """A claimed job carries everything it was added with, and counts its first start."""
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    moment_ms = 1_700_000_000_123
    await subject.add(
        "a", name="welcome", data='{"to": 7}', timestamp_ms=moment_ms, attempts=5, traceparent=traceparent
    )
    request = ask(worker="w1")
    claimed = await subject.engine.claim(QUEUE, request)
    assert claimed == ClaimedJob(
        lease=Lease(QUEUE, JobId("a"), request.token),
        name="welcome",
        data='{"to": 7}',
        timestamp_ms=1_700_000_000_123,
        attempts=5,
        starts=1,
        attempts_made=0,
        traceparent=traceparent,
    )
    assert claimed.attempt == 1


async def test_jobs_are_claimed_in_the_order_they_were_added(subject: Subject) -> None:
    """First in, first out, over one call and over several."""
    await subject.add("a", "b")
    await subject.add("c")
    assert [(await subject.claim()).lease.job_id for _ in range(3)] == ["a", "b", "c"]


async def test_an_empty_queue_is_idle_until_an_add(subject: Subject) -> None:
    """With nothing waiting and nothing delayed, time alone changes nothing."""
    assert await subject.engine.claim(QUEUE, ask()) == Idle(retry_seconds=None)


async def test_adding_twice_is_adding_once(subject: Subject) -> None:
    """A second add of an id is accepted and changes nothing, whatever state the job is in."""
    await subject.add("a", data='"first"')
    await subject.add("a", "a", data='"second"')
    assert (await subject.engine.counts(QUEUE)).waiting == 1
    claimed = await subject.claim()
    assert claimed.data == '"first"'
    await subject.add("a")
    await subject.engine.complete(claimed, "null", mark=None, keep=KEEP, claim_next=None)
    await subject.add("a")
    assert await subject.engine.claim(QUEUE, ask()) == Idle()


@pytest.mark.parametrize(
    "bad_id", ["", "17", "-17", "a:b", "x" * 501, "meta", "wait", "stalled-check", "lone \ud800 surrogate"]
)
async def test_an_id_that_cannot_work_is_refused_alone(subject: Subject, bad_id: str) -> None:
    """A bad id is answered with its reason in its place; its neighbours are added."""
    answers = await subject.engine.add(QUEUE, [job("a"), job(bad_id), job("b")])
    assert answers[0] == answers[2] == Accepted.ACCEPTED
    assert isinstance(answers[1], Refused)
    assert "id" in answers[1].error
    assert (await subject.engine.counts(QUEUE)).waiting == 2


@pytest.mark.parametrize(
    "terms",
    [{"priority": -1}, {"priority": 2_097_152}, {"delay_seconds": float("inf")}, {"attempts": 0}, {"data": '"\ud800"'}],
)
async def test_terms_that_cannot_work_are_refused(subject: Subject, terms: dict[str, object]) -> None:
    """A priority, delay, attempt count or text outside its range is refused and nothing is added."""
    (answer,) = await subject.engine.add(QUEUE, [job("a", **terms)])
    assert isinstance(answer, Refused)
    assert await subject.engine.counts(QUEUE) == JobCounts()


@pytest.mark.parametrize(
    "text", ["", "\x00", "π 🦆 \u2028", "'\"\\\r\n", "x" * 1_000_000], ids=["empty", "nul", "unicode", "quotes", "1 MB"]
)
async def test_hostile_payloads_arrive_unchanged(subject: Subject, text: str) -> None:
    """Data is carried byte for byte: control characters, any Unicode, a megabyte."""
    data = json.dumps({"text": text}, ensure_ascii=False)
    await subject.add("a", data=data, name="π\n")
    claimed = await subject.claim()
    assert claimed.data == data
    assert claimed.name == "π\n"


async def test_finishing_returns_the_next_job(subject: Subject) -> None:
    """The next job comes with the finishing answer, under the token that was asked with."""
    await subject.add("a", "b")
    first = await subject.claim()
    request = ask()
    finished = await subject.engine.complete(first, "null", mark=None, keep=KEEP, claim_next=request)
    assert finished.held is Held.HELD
    assert isinstance(finished.next, ClaimedJob)
    assert finished.next.lease == Lease(QUEUE, JobId("b"), request.token)
    finished = await subject.engine.fail(finished.next, "no", stack="", mark=None, keep=KEEP, claim_next=ask())
    assert finished.next == Idle()


async def test_the_token_of_a_finished_job_is_worth_nothing_for_the_next(subject: Subject) -> None:
    """A token is for one claim: the one of the finished job cannot finish the job that came after it."""
    await subject.add("a", "b")
    first = await subject.claim()
    second = (await subject.engine.complete(first, "1", mark=None, keep=KEEP, claim_next=ask())).next
    assert isinstance(second, ClaimedJob)
    stale = Lease(QUEUE, second.lease.job_id, first.lease.token)
    extender = subject.engine.extender()
    assert await asyncio.to_thread(extender.extend, [stale, second.lease], 30.0) == [Held.TAKEN, Held.HELD]
    await asyncio.to_thread(extender.close)


async def test_without_a_claim_the_next_job_stays(subject: Subject) -> None:
    """A finish that asks for no next job leases none."""
    await subject.add("a", "b")
    finished = await subject.engine.complete(await subject.claim(), "1", mark=None, keep=KEEP, claim_next=None)
    assert finished.next is None
    assert (await subject.engine.counts(QUEUE)).active == 0


async def test_a_finish_works_once(subject: Subject) -> None:
    """A repeated finish, as after a lost reply, is told that the lease is missing and changes nothing."""
    await subject.add("a")
    claimed = await subject.claim()
    await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=None)
    again = await subject.engine.fail(claimed, "late", stack="", mark="dead:1", keep=KEEP, claim_next=ask())
    assert again.held is Held.MISSING
    assert again.next is None
    assert await subject.engine.inspect(QUEUE, [JobId("a")]) == [
        JobTrace(exists=True, name="send", finished=True, mark="done")
    ]


async def test_marks_are_visible_afterwards(subject: Subject) -> None:
    """The mark is written with the finish, and a look tells completed, failed, alive and unknown apart."""
    await subject.add("a", "b", "c", name="send")
    await subject.engine.complete(await subject.claim(), "1", mark="done", keep=KEEP, claim_next=None)
    await subject.engine.fail(await subject.claim(), "no", stack="s", mark="dead:9", keep=KEEP, claim_next=None)
    assert await subject.engine.inspect(QUEUE, [JobId(name) for name in ("a", "b", "c", "d")]) == [
        JobTrace(exists=True, name="send", finished=True, mark="done"),
        JobTrace(exists=True, name="send", finished=True, failed_reason="no", mark="dead:9"),
        JobTrace(exists=True, name="send"),
        NOTHING,
    ]


async def test_a_completed_job_is_not_failed_because_an_earlier_attempt_was(subject: Subject) -> None:
    """The reason shown with a retry does not make a job look failed once it is completed."""
    await subject.add("a", attempts=2)
    claimed = await subject.claim()
    await subject.engine.retry(claimed, 0, spend_attempt=True, reason="oops", stack="", claim_next=None)
    await subject.engine.complete(await subject.claim(), "1", mark=None, keep=KEEP, claim_next=None)
    (trace,) = await subject.engine.inspect(QUEUE, [JobId("a")])
    assert trace.finished
    assert trace.failed_reason is None


@pytest.mark.parametrize(("delay", "spend", "made"), [(0, True, 1), (0, False, 0), (0.01, True, 1), (0.01, False, 0)])
async def test_a_retry_counts_the_attempt_only_when_told(
    subject: Subject, delay: float, made: int, *, spend: bool
) -> None:
    """A retry comes back with one attempt more where it was spent, with the same number where it was not."""
    await subject.add("a", attempts=3)
    claimed = await subject.claim()
    answer = await subject.engine.retry(claimed, delay, spend_attempt=spend, reason="r", stack="s", claim_next=None)
    assert answer.held is Held.HELD
    again = await until(lambda: _claimed(subject))
    assert again is not None
    assert (again.attempts_made, again.starts) == (made, 2)
    assert again.lease.token != claimed.lease.token


async def test_a_retry_goes_behind_the_waiting_ones(subject: Subject) -> None:
    """A job that failed does not push in."""
    await subject.add("a", "b")
    finished = await subject.engine.retry(
        await subject.claim(), 0, spend_attempt=True, reason="", stack="", claim_next=ask()
    )
    assert isinstance(finished.next, ClaimedJob)
    assert finished.next.lease.job_id == "b"
    assert (await subject.claim()).lease.job_id == "a"


async def test_a_retry_says_when_the_next_job_is_due(subject: Subject) -> None:
    """With nothing else to do, the answer to a delayed retry tells when to come back."""
    await subject.add("a")
    finished = await subject.engine.retry(
        await subject.claim(), 60.0, spend_attempt=False, reason="", stack="", claim_next=ask()
    )
    assert isinstance(finished.next, Idle)
    assert finished.next.retry_seconds == pytest.approx(60.0, abs=20.0)
    assert (await subject.engine.counts(QUEUE)).delayed == 1


async def test_a_claim_says_when_a_delayed_job_is_due(subject: Subject) -> None:
    """The delay counts from the add, whatever time the job bears."""
    await subject.add("a", delay_seconds=60.0, timestamp_ms=int(time.time() * 1000) - 3_600_000)
    idle = await subject.engine.claim(QUEUE, ask())
    assert isinstance(idle, Idle)
    assert idle.retry_seconds == pytest.approx(60.0, abs=20.0)


async def test_a_delay_is_kept_within_a_tenth_of_a_second(subject: Subject) -> None:
    """A delayed job is never early, and a sleeping waiter gets it less than 100 ms late whenever the machine lets it."""
    turns = count()

    async def on_time() -> bool:
        job_id, adding = f"j{next(turns)}", time.monotonic()
        await subject.add(job_id, delay_seconds=0.2)
        added = time.monotonic()
        assert await subject.engine.wait([QUEUE], 600.0) == QUEUE
        assert (await subject.claim()).lease.job_id == job_id
        assert time.monotonic() - adding >= 0.19
        return time.monotonic() - added < 0.3

    await until(on_time)


async def test_a_released_job_is_next_and_keeps_its_attempt(subject: Subject) -> None:
    """Giving back costs nothing: the job is claimed next, and no attempt is spent."""
    await subject.add("a", "b")
    claimed = await subject.claim()
    assert await subject.engine.release(claimed) is Held.HELD
    again = await subject.claim()
    assert again.lease.job_id == "a"
    assert again.attempts_made == 0
    assert await subject.engine.release(claimed) is Held.TAKEN


async def test_a_released_job_with_a_priority_wakes_a_waiter(subject: Subject) -> None:
    """A waiter hears of a job that was given back, priorities included."""
    await subject.add("a", priority=3)
    claimed = await subject.claim()
    await subject.engine.wait([QUEUE], 0.01)
    await subject.engine.release(claimed)
    assert await subject.engine.wait([QUEUE], 2.0) == QUEUE


async def test_priorities_come_after_none_and_the_lowest_number_first(subject: Subject) -> None:
    """Jobs without a priority go first, then by number, then by age."""
    await subject.add("low", priority=9)
    await subject.add("high", "high2", priority=1)
    await subject.add("plain")
    claimed = [await subject.claim() for _ in range(4)]
    assert [one.lease.job_id for one in claimed] == ["plain", "high", "high2", "low"]


async def test_a_delayed_job_keeps_its_priority(subject: Subject) -> None:
    """When a delay ends, the job joins the others of its priority."""
    await subject.add("late", priority=1, delay_seconds=0.01)
    await subject.add("low", priority=9)
    await until(lambda: subject.engine.wait([QUEUE], 0.05))
    await until(lambda: _is_due(subject))
    assert (await subject.claim()).lease.job_id == "late"


async def test_an_expired_lease_is_rescued_at_the_second_look(subject: Subject) -> None:
    """A job whose lease ran out goes back after two looks, counts the stall, and its old token can do nothing."""
    await subject.add("a")
    stale = await subject.claim(lease_seconds=0.03)
    assert await until(lambda: subject.engine.rescue(QUEUE, 0.01)) == ["a"]
    fresh = await subject.claim()
    assert (fresh.stalls, fresh.starts, fresh.attempts_made) == (1, 2, 0)
    assert (await subject.engine.complete(stale, "1", mark="done", keep=KEEP, claim_next=None)).held is Held.TAKEN
    retried = await subject.engine.retry(stale, 1, spend_attempt=True, reason="", stack="", claim_next=None)
    assert retried.held is Held.TAKEN
    assert await subject.engine.release(stale) is Held.TAKEN
    assert (await subject.engine.complete(fresh, "1", mark=None, keep=KEEP, claim_next=None)).held is Held.HELD


async def test_a_held_lease_is_never_rescued(subject: Subject) -> None:
    """Looks as often as one likes do not take a job from a run that holds its lease."""
    await subject.add("a")
    await subject.claim()
    looks = 0

    async def looked_often() -> bool:
        nonlocal looks
        assert await subject.engine.rescue(QUEUE, 0.005) == []
        looks += 1
        return looks == 20

    await until(looked_often)


async def test_extending_tells_held_missing_and_taken_apart(subject: Subject) -> None:
    """One call renews many leases and answers each in its place."""
    await subject.add("held", "expired", "finished", "other")
    held = await subject.claim()
    expired = await subject.claim(lease_seconds=0.02)
    finished, other = await subject.claim(), await subject.claim()
    await subject.engine.complete(finished, "1", mark=None, keep=KEEP, claim_next=None)
    stolen = Lease(QUEUE, other.lease.job_id, LeaseToken("somebody else"))
    unknown = Lease(QUEUE, JobId("unknown"), LeaseToken("t"))
    extender = subject.engine.extender()

    def extend() -> list[Held]:
        return extender.extend([held.lease, expired.lease, finished.lease, stolen, unknown], 30.0)

    await until(lambda: _is_unleased(subject, expired))
    assert await asyncio.to_thread(extend) == [Held.HELD, Held.MISSING, Held.TAKEN, Held.TAKEN, Held.MISSING]
    assert await asyncio.to_thread(extender.extend, [], 30.0) == []
    await asyncio.to_thread(extender.close)


async def test_extending_keeps_a_lease_past_its_first_end(subject: Subject) -> None:
    """A renewed lease outlives the term it was claimed with."""
    await subject.add("a", "probe")
    claimed = await subject.claim(lease_seconds=0.1)
    probe = await subject.claim(lease_seconds=0.1)
    extender = subject.engine.extender()
    assert await asyncio.to_thread(extender.extend, [claimed.lease], 30.0) == [Held.HELD]
    await asyncio.to_thread(extender.close)
    await until(lambda: _is_unleased(subject, probe))
    assert (await subject.engine.complete(claimed, "1", mark=None, keep=KEEP, claim_next=None)).held is Held.HELD


async def test_a_limit_bounds_the_starts(subject: Subject) -> None:
    """No more than the limit start within its period; the answer says when the next may."""
    await subject.add(*(f"j{n}" for n in range(9)))
    limit = Limit(jobs=3, seconds=0.3)
    asked = time.monotonic()
    got: list[float] = []

    async def claim_one() -> bool:
        claimed = await subject.engine.claim(QUEUE, ask(limit=limit))
        if isinstance(claimed, ClaimedJob):
            got.append(time.monotonic())
        else:
            assert claimed.retry_seconds is not None
            assert 0 <= claimed.retry_seconds <= 0.3
        return len(got) == 9

    await until(claim_one)
    assert got[3] - asked >= 0.29
    assert got[6] - asked >= 0.59


async def test_waiting_ends_with_an_add_the_timeout_or_an_interrupt(subject: Subject) -> None:
    """A waiter is told which of its queues has something, hears nothing of others, and can be woken."""
    engine = subject.engine
    assert await engine.wait(["one", "two"], 0.02) is None
    waiting = asyncio.create_task(engine.wait(["one", "two"], 10.0))
    await subject.add("a", queue="three")
    await subject.add("b", queue="two")
    assert await waiting == "two"
    waiting = asyncio.create_task(engine.wait(["one"], 600.0))
    await asyncio.sleep(0)
    await engine.interrupt()
    assert await waiting is None


async def test_an_interrupted_wait_loses_no_wake_up(subject: Subject) -> None:
    """An add that meets an interrupt is found by the next wait."""
    for turn in range(20):
        waiting = asyncio.create_task(subject.engine.wait([QUEUE], 10.0))
        await asyncio.sleep(0)
        adding = asyncio.create_task(subject.add(f"j{turn}"))
        await subject.engine.interrupt()
        found = await waiting
        await adding
        if found is None:
            found = await subject.engine.wait([QUEUE], 5.0)
        assert found == QUEUE
        await subject.claim()
        while await subject.engine.wait([QUEUE], 0.01):
            assert isinstance(await subject.engine.claim(QUEUE, ask()), Idle)


async def test_a_cancelled_wait_leaves_the_engine_usable(subject: Subject) -> None:
    """After a cancelled wait the next one works at once and is not queued behind it."""
    waiting = asyncio.create_task(subject.engine.wait([QUEUE], 30.0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    await subject.add("a")
    assert await subject.engine.wait([QUEUE], 600.0) == QUEUE


async def test_waiting_for_no_queue_is_a_sleep_that_can_be_ended(subject: Subject) -> None:
    """A worker with no free slot waits for nothing, until it is interrupted."""
    assert await subject.engine.wait([], 0.01) is None
    waiting = asyncio.create_task(subject.engine.wait([], 600.0))
    await asyncio.sleep(0)
    await subject.engine.interrupt()
    assert await waiting is None


async def test_removing_spares_the_running(subject: Subject) -> None:
    """Any job that nobody runs can be removed and added anew; a leased one cannot."""
    await subject.add("running", "done", "waiting")
    await subject.add("later", delay_seconds=60)
    await subject.claim()
    await subject.engine.complete(await subject.claim(), "1", mark="done", keep=KEEP, claim_next=None)
    assert not await subject.engine.remove(QUEUE, JobId("running"))
    for job_id in ("done", "waiting", "later", "unknown"):
        assert await subject.engine.remove(QUEUE, JobId(job_id))
    assert await subject.engine.counts(QUEUE) == JobCounts(active=1)
    await subject.add("done")
    (trace,) = await subject.engine.inspect(QUEUE, [JobId("done")])
    assert not trace.finished
    assert trace.mark is None


async def test_counts_tell_the_states(subject: Subject) -> None:
    """Each job is counted in the one state it is in."""
    await subject.add("a", "b", "c", "d")
    await subject.add("e", delay_seconds=60)
    await subject.add("f", priority=2)
    await subject.engine.complete(await subject.claim(), "1", mark=None, keep=KEEP, claim_next=None)
    await subject.engine.fail(await subject.claim(), "no", stack="", mark=None, keep=KEEP, claim_next=None)
    await subject.claim()
    assert await subject.engine.counts(QUEUE) == JobCounts(
        waiting=1, active=1, delayed=1, prioritized=1, completed=1, failed=1
    )


@pytest.mark.parametrize(
    ("keep", "left"), [(KeepRule(), 3), (KeepRule(count=2), 2), (KeepRule(count=0), 0), (KeepRule(age_seconds=60), 3)]
)
async def test_finished_jobs_are_kept_by_the_rule(subject: Subject, keep: KeepRule, left: int) -> None:
    """For ever, a number of them, or none at all; the newest stay."""
    await subject.add("a", "b", "c")
    for _ in range(3):
        await subject.engine.complete(await subject.claim(), "1", mark=None, keep=keep, claim_next=None)
    assert (await subject.engine.counts(QUEUE)).completed == left
    traces = await subject.engine.inspect(QUEUE, [JobId("a"), JobId("b"), JobId("c")])
    assert [trace.exists for trace in traces] == [False] * (3 - left) + [True] * left


async def test_finished_jobs_leave_by_age(subject: Subject) -> None:
    """Once they are older than the rule says, the next finish takes them away."""
    await subject.add("a")
    await subject.engine.fail(await subject.claim(), "no", stack="", mark=None, keep=KEEP, claim_next=None)
    finishes = 0

    async def finish_another() -> bool:
        nonlocal finishes
        finishes += 1
        await subject.add(f"later-{finishes}")
        rule = KeepRule(age_seconds=0.05)
        await subject.engine.fail(await subject.claim(), "no", stack="", mark=None, keep=rule, claim_next=None)
        return not (await subject.engine.inspect(QUEUE, [JobId("a")]))[0].exists

    await until(finish_another)
    assert finishes > 1
    assert (await subject.engine.counts(QUEUE)).failed >= 1


async def test_a_flush_changes_the_identity_and_ends_every_lease(subject: Subject) -> None:
    """After a flush the identity is another, nothing exists, and a run's lease is missing but not taken."""
    await subject.add("a", "b")
    claimed = await subject.claim()
    before = await subject.engine.observe(QUEUE)
    assert await subject.engine.observe(QUEUE) == before
    subject.flush()
    after = await subject.engine.observe(QUEUE)
    assert after != before
    assert await subject.engine.observe(QUEUE) == after
    extender = subject.engine.extender()
    assert await asyncio.to_thread(extender.extend, [claimed.lease], 30.0) == [Held.MISSING]
    await asyncio.to_thread(extender.close)
    finished = await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=ask())
    assert finished.held is Held.MISSING
    assert await subject.engine.inspect(QUEUE, [JobId("a"), JobId("b")]) == [NOTHING, NOTHING]
    await subject.add("a")
    assert (await subject.claim()).starts == 1


async def test_reasons_may_hold_anything(subject: Subject) -> None:
    """The text of an error is written as far as it can be; it never breaks the finish."""
    await subject.add("a", backoff=Backoff(kind="fixed", delay_seconds=1))
    claimed = await subject.claim()
    failed = await subject.engine.fail(
        claimed, "bad \udc80 name", stack="\ud800\n", mark="dead:1", keep=KEEP, claim_next=None
    )
    assert failed.held is Held.HELD
    (trace,) = await subject.engine.inspect(QUEUE, [JobId("a")])
    assert trace.failed_reason is not None
    assert trace.failed_reason.startswith("bad ")


async def _claimed(subject: Subject) -> ClaimedJob | None:
    claimed = await subject.engine.claim(QUEUE, ask())
    return claimed if isinstance(claimed, ClaimedJob) else None


async def _is_due(subject: Subject) -> bool:
    """Whether no delayed job is left; a release of what a claim found keeps everything else as it was."""
    claimed = await subject.engine.claim(QUEUE, ask())
    if isinstance(claimed, ClaimedJob):
        await subject.engine.release(claimed)
    return (await subject.engine.counts(QUEUE)).delayed == 0


async def _is_unleased(subject: Subject, claimed: ClaimedJob) -> bool:
    """Whether a lease has run out, asked without touching it."""
    stranger = Lease(QUEUE, claimed.lease.job_id, LeaseToken("stranger"))
    extender = subject.engine.extender()
    (held,) = await asyncio.to_thread(extender.extend, [stranger], 30.0)
    await asyncio.to_thread(extender.close)
    return held is Held.MISSING
