"""The tree of a flow as operations show it: from its root, level by level, bounded, whatever is missing."""

from typing import Any, cast

import pytest

from homing.errors import UnknownId
from homing.ids import JobId, new_token
from homing.ledger.ledger import Ledger
from homing.operations import flows
from homing.operations.flows import Counts, FlowNode, read_children, read_flow
from homing.queue.browse import JobState
from homing.queue.flows import FlowJob
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.memory import MemoryEngine
from homing.queue.parent import JobRef, OnFailure, Parent
from homing.queue.port import Accepted, ClaimRequest


class Registered:
    """The one thing that is asked of the ledger: which queues there are."""

    async def fetch(self, *_: object, **__: object) -> list[dict[str, Any]]:
        """Rows of `queues.sql`."""
        return [{"queue": "bills"}, {"queue": "parcels"}]


LEDGER = cast("Ledger", Registered())
BILL = JobRef("bills", JobId("bill"))
BOX = JobRef("parcels", JobId("box"))


def member(ref: JobRef, of: JobRef | None = None, on_failure: OnFailure = "fail", *, waits: bool = False) -> FlowJob:
    """A job of a flow."""
    parent = None if of is None else Parent(of, on_failure)
    job = NewJob(id=ref.id, name="work", data="{}", timestamp_ms=1_700_000_000_000, parent=parent)
    return FlowJob(queue=ref.queue, job=job, waits=waits)


def part(name: str) -> JobRef:
    """A job in the other queue."""
    return JobRef("parcels", JobId(name))


async def end(engine: MemoryEngine, result: str | None) -> None:
    """The next parcel completes, or fails."""
    claimed = await engine.claim("parcels", ClaimRequest(new_token(), 30.0))
    assert isinstance(claimed, ClaimedJob)
    if result is None:
        await engine.fail(claimed, "lost", stack="", mark=None, keep=KeepRule(), claim_next=None)
    else:
        await engine.complete(claimed, result, mark=None, keep=KeepRule(), claim_next=None)


@pytest.fixture
async def engine() -> MemoryEngine:
    """A bill that waits for two parcels and a box with one item."""
    engine = MemoryEngine()
    jobs = [
        member(BILL, waits=True),
        member(part("a"), BILL, "ignore"),
        member(part("b"), BILL),
        member(BOX, BILL, waits=True),
        member(part("item"), BOX),
    ]
    assert await engine.add_flow(jobs) == [Accepted.ACCEPTED] * 5
    await end(engine, None)
    await end(engine, '"B"')
    return engine


def found(tree: FlowNode) -> list[tuple[int, str, Counts | None]]:
    """Level, id and meaning of each job, from the top down."""
    return [(level, node.job.id, node.counts) for level, node in tree.walk()]


async def test_a_tree_is_shown_from_its_root_whichever_job_is_asked_for(engine: MemoryEngine) -> None:
    """What is waited for comes before what failed and what is done; each says what it came to."""
    tree = await read_flow(LEDGER, engine, JobId("item"))
    assert tree is not None
    assert found(tree) == [
        (0, "bill", None),
        (1, "box", Counts.PENDING),
        (2, "item", Counts.PENDING),
        (1, "a", Counts.FORGIVEN),
        (1, "b", Counts.COMPLETED),
    ]
    assert [node.job.id for _, node in tree.walk() if node.asked] == ["item"]
    box, a, b = tree.children
    assert (tree.job.state, box.job.state) == (JobState.WAITING_CHILDREN, JobState.WAITING_CHILDREN)
    assert (a.failure, b.value) == ("lost", '"B"')


async def test_many_children_are_counted_and_some_are_shown(engine: MemoryEngine) -> None:
    """A page stays small: those that are left out are said in number, on every level."""
    tree = await read_children(engine, BILL, most_children=1)
    assert (len(tree.children), tree.hidden) == (3, 0)  # one of each kind
    await engine.add_flow([member(part(f"c{n}"), BILL) for n in range(5)])
    tree = await read_children(engine, BILL, most_children=1)
    assert (len(tree.children), tree.hidden) == (3, 5)
    assert all(not child.children for child in tree.children)


async def test_a_tree_has_at_most_so_many_jobs(engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The top is shown before what lies below it."""
    monkeypatch.setattr(flows, "MOST_JOBS", 3)
    tree = await read_flow(LEDGER, engine, BILL.id)
    assert tree is not None
    assert [level for level, _ in tree.walk()] == [0, 1, 1, 1]


async def test_a_job_without_family_has_no_tree(engine: MemoryEngine) -> None:
    """And an id that is nowhere is an error."""
    await engine.add("bills", [member(JobRef("bills", JobId("alone"))).job])
    assert await read_flow(LEDGER, engine, JobId("alone")) is None
    with pytest.raises(UnknownId):
        await read_flow(LEDGER, engine, JobId("nowhere"))


async def test_a_child_whose_parent_is_gone_is_the_root(engine: MemoryEngine) -> None:
    """What was removed above it is not made up; a child that was removed keeps its value in its parent."""
    assert await engine.remove("parcels", part("b").id)
    tree = await read_flow(LEDGER, engine, BILL.id)
    assert tree is not None
    gone = tree.children[-1]
    assert (gone.job.id, gone.job.name, gone.value) == ("b", None, '"B"')
    assert await engine.remove("bills", BILL.id)
    tree = await read_flow(LEDGER, engine, JobId("item"))
    assert tree is not None
    assert tree.job.id == "box"
