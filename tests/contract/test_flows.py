"""What every engine promises of flows: children first, their values and failures, and no parent that waits for ever."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from homing.ids import JobId
from homing.queue.browse import SteeredEngine
from homing.queue.flows import Dependencies, FlowJob, failed_child
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.parent import JobRef, OnFailure, Parent
from homing.queue.port import Accepted, AddResult, Engine, Held, Idle, QueueSettings, Refused
from tests.contract.conftest import KEEP, QUEUE, Subject, ask, job

OTHER = "parcels"
BILL = JobRef(QUEUE, JobId("bill"))


def parent(job_id: str = "bill", **terms: object) -> FlowJob:
    """A job that waits for children from the start."""
    return FlowJob(queue=QUEUE, job=job(job_id, **terms), waits=True)


def child(job_id: str, on_failure: OnFailure = "fail", of: JobRef = BILL, **terms: object) -> FlowJob:
    """A child in another queue."""
    return FlowJob(queue=OTHER, job=job(job_id, parent=Parent(of, on_failure), **terms))


async def add(engine: Engine, *jobs: FlowJob) -> None:
    """Add a flow that must be accepted."""
    assert await engine.add_flow(jobs) == [Accepted.ACCEPTED] * len(jobs)


async def end(subject: Subject, result: str | None, keep: KeepRule = KEEP) -> ClaimedJob:
    """Claim the next child, and complete it, or let it fail."""
    claimed = await subject.claim(queue=OTHER)
    if result is None:
        ended = await subject.engine.fail(claimed, "lost", stack="", mark=None, keep=keep, claim_next=None)
    else:
        ended = await subject.engine.complete(claimed, result, mark=None, keep=keep, claim_next=None)
    assert ended.held is Held.HELD
    return claimed


async def family(subject: Subject, ref: JobRef = BILL) -> Dependencies:
    """What the engine shows of a job's family."""
    return await subject.engine.family(ref.queue, ref.id)


async def test_a_parent_runs_after_its_children_and_sees_what_they_returned(subject: Subject) -> None:
    """It waits while one of them has not ended, in whichever queue that is, and goes before what waits there already."""
    await subject.add("earlier")
    await add(subject.engine, parent(), child("p1"), child("p2"))
    assert (await subject.engine.counts(QUEUE)).waiting_children == 1
    await end(subject, '"A"')
    assert (await family(subject)).pending == (JobRef(OTHER, JobId("p2")),)
    await end(subject, '"B"', KeepRule(count=0))
    assert (await subject.claim()).lease.job_id == "bill"
    found = await family(subject)
    assert found.completed == {JobRef(OTHER, JobId("p1")): '"A"', JobRef(OTHER, JobId("p2")): '"B"'}
    assert (found.pending_count, found.completed_count, found.count) == (0, 2, 2)


@pytest.mark.parametrize("on_failure", ["continue", "ignore", "remove"])
async def test_what_the_death_of_a_child_means(subject: Subject, on_failure: OnFailure) -> None:
    """A parent that continues goes on at once; the others wait for the rest; `remove` leaves no trace."""
    await add(subject.engine, parent(), child("p1", on_failure), child("p2"))
    await end(subject, None)
    if on_failure != "continue":
        assert await subject.engine.claim(QUEUE, ask()) == Idle()
        await end(subject, "2")
    claimed, found = await subject.claim(), await family(subject)
    assert claimed.deferred_failure is None
    assert found.forgiven == ({} if on_failure == "remove" else {JobRef(OTHER, JobId("p1")): "lost"})
    ended = await subject.engine.complete(claimed, "null", mark=None, keep=KEEP, claim_next=None)
    assert ended.held is Held.HELD  # also while a child is still to come, which runs on by itself
    if on_failure == "continue":
        await end(subject, "2")


async def test_the_death_of_a_child_ends_its_parent_at_once(subject: Subject) -> None:
    """Unless something else is said: the parent is claimed with the verdict on it, whatever the other children do."""
    await add(subject.engine, parent(), child("p1"), child("p2"))
    await end(subject, None)
    claimed = await subject.claim()
    key = failed_child(claimed.deferred_failure)
    assert key is not None
    assert key.endswith(f"{OTHER}:p1")
    assert (await family(subject)).fatal == (JobRef(OTHER, JobId("p1")),)
    done = await subject.engine.fail(claimed, "child", stack="", mark=None, keep=KEEP, claim_next=None)
    assert done.held is Held.HELD
    await end(subject, "2")
    assert await subject.engine.claim(QUEUE, ask()) == Idle()


async def test_a_run_adds_children_and_waits_for_them(subject: Subject) -> None:
    """A running job gets children, is given back until they have ended, and counts no start for that."""
    await subject.add("bill")
    claimed = await subject.claim()
    await add(subject.engine, child("p1"), child("p2"))
    assert (await subject.engine.wait_for_children(claimed, claim_next=None)).held is Held.HELD
    await end(subject, "1")
    await end(subject, "2")
    again = await subject.claim()
    assert (again.lease.job_id, again.starts, again.attempts_made) == ("bill", 1, 0)
    assert (await subject.engine.wait_for_children(again, claim_next=None)).held is Held.HELD
    assert await _steered(subject).promote(QUEUE, BILL.id)  # nothing is left to wait for: it runs soon
    assert (await subject.claim()).starts == 1


async def test_waiting_needs_the_lease_and_hands_out_the_next_job(subject: Subject) -> None:
    """A run whose lease another one holds changes nothing; one that waits makes room for the next job."""
    await subject.add("bill", "next")
    claimed = await subject.claim()
    await add(subject.engine, child("p1"))
    stolen = replace(claimed, lease=replace(claimed.lease, token=ask().token))
    assert (await subject.engine.wait_for_children(stolen, claim_next=None)).held is Held.TAKEN
    finished = await subject.engine.wait_for_children(claimed, claim_next=ask())
    assert isinstance(finished.next, ClaimedJob)
    assert finished.next.lease.job_id == "next"


@pytest.mark.parametrize("fatal", [False, True])
async def test_a_run_that_lost_its_lease_ends_no_parent(subject: Subject, *, fatal: bool) -> None:
    """Whether its children are awaited or have failed: the answer is that of any lost lease, and the family stays."""
    await subject.add("bill")
    stale = await subject.claim()
    await subject.engine.complete(stale, "1", mark=None, keep=KeepRule(count=0), claim_next=None)
    await add(subject.engine, parent(), child("p1"))
    if fatal:
        await end(subject, None)
    before = await family(subject)
    assert (await subject.engine.complete(stale, "1", mark=None, keep=KEEP, claim_next=None)).held is Held.MISSING
    assert await family(subject) == before


async def test_adding_a_flow_again_changes_nothing(subject: Subject) -> None:
    """Neither while its children wait, nor when one of them has ended: ids are the identity."""
    flow = (parent(), child("p1"), child("p2"))
    await add(subject.engine, *flow)
    await add(subject.engine, *flow)
    await end(subject, "1")
    await add(subject.engine, *flow)
    assert (await subject.engine.counts(OTHER)).waiting == 1
    assert await subject.engine.claim(QUEUE, ask()) == Idle()
    await end(subject, "2")
    assert (await subject.claim()).lease.job_id == "bill"
    assert (await family(subject)).completed_count == 2


@pytest.mark.parametrize("result", ["1", None])
async def test_a_child_that_has_ended_counts_as_what_it_came_to(subject: Subject, result: str | None) -> None:
    """A parent that comes later does not wait for what will never end again: its value or its death counts at once."""
    await subject.add("p1", queue=OTHER)
    await end(subject, result)
    await add(subject.engine, parent(), child("p1", "ignore"))
    assert (await subject.claim()).lease.job_id == "bill"
    found = await family(subject)
    p1 = JobRef(OTHER, JobId("p1"))
    assert (found.completed, found.forgiven) == (({p1: "1"}, {}) if result else ({}, {p1: "lost"}))


async def test_trees_are_deep(subject: Subject) -> None:
    """A child may have children: it runs after them, and its own parent after it."""
    box = JobRef(OTHER, JobId("box"))
    middle = FlowJob(queue=OTHER, job=job("box", parent=Parent(BILL)), waits=True)
    await add(subject.engine, parent(), middle, child("item", of=box))
    assert (await end(subject, "1")).lease.job_id == "item"
    assert (await end(subject, "2")).lease.job_id == "box"
    assert (await subject.claim()).lease.job_id == "bill"
    assert (await family(subject, box)).parent == BILL


@pytest.mark.parametrize("way", ["remove", "drain", "obliterate"])
async def test_a_child_that_is_removed_is_not_waited_for(subject: Subject, way: str) -> None:
    """Whoever removes it, or its whole queue: the parent goes on, and the child is nowhere among what it came to."""
    await add(subject.engine, parent(), child("p1"))
    match way:
        case "remove":
            assert await subject.engine.remove(OTHER, JobId("p1"))
        case "drain":
            await _steered(subject).drain(OTHER, delayed=True)
        case _:
            await subject.engine.push_settings(OTHER, QueueSettings(paused=True))
            await _steered(subject).obliterate(OTHER, force=True)
            await subject.engine.review_parents(QUEUE)
    assert (await subject.claim()).lease.job_id == "bill"
    assert (await family(subject)).count == 0


def _steered(subject: Subject) -> SteeredEngine:
    return cast("SteeredEngine", subject.engine)


async def test_a_child_that_failed_and_is_retried_is_waited_for_again(subject: Subject) -> None:
    """A person retries it in place: what it comes to now counts, and not its death."""
    await add(subject.engine, parent(), child("p1", "ignore"), child("p2"))
    await end(subject, None)
    assert await _steered(subject).rerun(OTHER, JobId("p1"))
    await end(subject, "2")
    assert await subject.engine.claim(QUEUE, ask()) == Idle()
    await end(subject, "1")
    assert (await subject.claim()).lease.job_id == "bill"
    assert (await family(subject)).forgiven_count == 0


async def test_review_finds_what_nobody_told_the_parent(subject: Subject) -> None:
    """A parent whose child is there waits on; a page says where it ended."""
    await add(subject.engine, parent("a"), child("p1", of=JobRef(QUEUE, JobId("a"))))
    await add(subject.engine, parent("b"), child("p2", of=JobRef(QUEUE, JobId("b"))))
    first = await subject.engine.review_parents(QUEUE, most=1)
    assert first.released == ()
    assert first.after is not None
    second = await subject.engine.review_parents(QUEUE, after=first.after, most=5)
    assert (second.after, second.released) == (None, ())
    assert {*first.waiting, *second.waiting} == {"a", "b"}
    assert (await subject.engine.counts(QUEUE)).waiting_children == 2


async def test_a_parent_is_released_by_hand_once(subject: Subject) -> None:
    """Whatever its children do, it waits to be claimed, and where that is asked for it will be ended as one of whose children died."""
    await add(subject.engine, parent(), child("p1"))
    assert await subject.engine.release_parent(QUEUE, BILL.id)
    assert not await subject.engine.release_parent(QUEUE, BILL.id)
    assert (await subject.claim()).deferred_failure is None
    await add(subject.engine, parent("late"), child("p2", of=JobRef(QUEUE, JobId("late"))))
    assert await subject.engine.release_parent(QUEUE, JobId("late"), as_bereft=True)
    key = failed_child((await subject.claim()).deferred_failure)
    assert key is not None
    assert key.endswith(f"{OTHER}:p2")


async def test_descendants_that_have_not_begun_are_removed_with_their_ancestor(subject: Subject) -> None:
    """What runs goes on; what waits is gone."""
    await add(subject.engine, parent(), child("p1"), child("p2"))
    running = await subject.claim(queue=OTHER)
    await subject.engine.remove_children(QUEUE, BILL.id)
    counts = await subject.engine.counts(OTHER)
    assert (counts.waiting, counts.active) == (0, 1)
    assert running.lease.job_id == "p1"


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ([parent(), child("p1"), child("a:b")], "no colon"),
        ([parent(), child("p1"), child("p1")], "id of its own"),
        ([FlowJob(queue=QUEUE, job=job("bill")), child("p1")], "does not wait for children"),
        ([parent(lifo=True), child("p1")], "lifo"),
    ],
    ids=["a bad id", "an id twice", "a parent that does not wait", "a line it never joins"],
)
async def test_all_of_a_flow_is_added_or_none(subject: Subject, jobs: Sequence[FlowJob], reason: str) -> None:
    """One job that cannot be added keeps out the others, and each says why."""
    answers = await subject.engine.add_flow(jobs)
    assert all(isinstance(answer, Refused) and reason in answer.error for answer in answers)
    assert (await subject.engine.counts(QUEUE)).waiting_children == 0
    assert (await subject.engine.counts(OTHER)).waiting == 0


async def test_a_child_needs_its_parent(subject: Subject) -> None:
    """Where the parent is gone, the child is not added and says so; that is no verdict for good."""
    orphan: AddResult = (await subject.engine.add_flow([child("p1")]))[0]
    assert isinstance(orphan, Refused)
    assert not orphan.for_good
    assert (await subject.engine.counts(OTHER)).waiting == 0


async def test_a_child_has_one_parent_that_waits(subject: Subject) -> None:
    """While one parent waits for a job, another cannot take it; afterwards it can."""
    second = JobRef(QUEUE, JobId("second"))
    await add(subject.engine, parent(), child("p1"), child("p2"))
    answers = await subject.engine.add_flow([parent("second"), child("p1", of=second), child("p3", of=second)])
    assert [isinstance(answer, Refused) for answer in answers] == [False, True, False]
    assert (await family(subject, second)).pending == (JobRef(OTHER, JobId("p3")),)


async def test_a_thousand_children_in_one_call(subject: Subject) -> None:
    """They are there together, and each is counted."""
    await add(subject.engine, parent(), *(child(f"p{n}", data=json.dumps({"n": n})) for n in range(1000)))
    assert (await family(subject)).pending_count == 1000
    seen = await subject.engine.family(QUEUE, BILL.id, most=10)
    assert len(seen.pending) <= 10
    assert seen.pending_count == 1000
