"""What becomes of a run that waits: every combination of what the ledger and the engine say of a child."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from homing.app.flow_plan import Planned
from homing.app.flows import Children
from homing.ids import JobId
from homing.queue.flows import Dependencies, FlowJob
from homing.queue.job import NewJob
from homing.queue.parent import JobRef, OnFailure
from homing.worker.flow_judging import (
    ChildRow,
    Fatal,
    Open,
    Ready,
    Verdict,
    judge_added,
    judge_children,
    newest,
    read_value,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE, AFTER = NOW - timedelta(hours=1), NOW + timedelta(hours=1)
A, B = (JobRef("parcels", JobId(name)) for name in "ab")


def child(ref: JobRef, on_failure: OnFailure = "fail") -> Planned:
    """A planned child."""
    job = NewJob(id=ref.id, name="ship", data="{}", timestamp_ms=0)
    return Planned(key=ref.id, message=uuid4(), on_failure=on_failure, job=FlowJob(queue=ref.queue, job=job))


def judged(row: ChildRow | None, on_failure: OnFailure = "fail", engine: Dependencies | None = None) -> Verdict:
    """The verdict where one child stands like this, and another is done."""
    one, done = child(A, on_failure), child(B)
    rows: dict[UUID, ChildRow] = {done.message: ChildRow(outcome="done", result='"B"')}
    if row is not None:
        rows[one.message] = row
    return judge_children([one, done], rows, engine or Dependencies(), NOW)


DEAD = ChildRow(outcome="dead", letter=7, failed_at=AFTER, error="ValueError: no")
CANCELLED = ChildRow(outcome="cancelled")
REASON = "is dead (ValueError: no; letter 7)"


def ready(failures: dict[str, str] | None = None, values: dict[str, object] | None = None) -> Ready:
    """The parent goes on."""
    return Ready(Children(values={"b": "B", **(values or {})}, failures=failures or {}))


@pytest.mark.parametrize(
    ("row", "on_failure", "verdict"),
    [
        (ChildRow(outcome="done", result='{"n": 1}'), "fail", ready(values={"a": {"n": 1}})),
        (ChildRow(outcome="done"), "fail", ready(values={"a": None})),
        (DEAD, "fail", Fatal(f"its child a {REASON}")),
        (DEAD, "continue", ready({"a": REASON})),
        (DEAD, "ignore", ready({"a": REASON})),
        (DEAD, "remove", ready()),
        (CANCELLED, "fail", Fatal("its child a was cancelled")),
        (CANCELLED, "ignore", ready({"a": "was cancelled"})),
        (ChildRow(outcome="dead", failed_at=AFTER), "fail", Fatal("its child a is dead (its letter is closed)")),
        (ChildRow(outcome="dead", letter=7, failed_at=BEFORE), "fail", Open(waiting=1, revive=(7,), elsewhere=True)),
        (ChildRow(outcome=None, generation=2), "fail", Open(waiting=1, elsewhere=True)),
    ],
    ids=str,
)
def test_what_the_ledger_says_of_a_child(row: ChildRow, on_failure: OnFailure, verdict: Verdict) -> None:
    """It holds, whatever the engine says: here that the child returned something else."""
    lies = Dependencies(completed={A: '"lie"'})
    assert judged(row, on_failure, lies) == verdict


def test_a_child_that_the_ledger_does_not_know_stands_as_the_engine_says() -> None:
    """Missing: it is added. Waited for: not again. Ended elsewhere: its value or its death counts."""
    open_ = judged(None)
    assert isinstance(open_, Open)
    assert [one.ref for one in open_.missing] == [A]
    assert judged(None, engine=Dependencies(pending=(A,))) == Open(waiting=1)
    assert judged(None, engine=Dependencies(completed={A: "text"})) == ready(values={"a": "text"})
    assert judged(None, "ignore", Dependencies(forgiven={A: "no"})) == ready({"a": "failed: no"})
    assert judged(None, engine=Dependencies(fatal=(A,))) == Fatal("its child a failed")


def test_a_child_that_continues_does_not_wait_for_the_others() -> None:
    """One is dead, another is at work: the parent goes on now, and is told of both."""
    one, other = child(A, "continue"), child(B)
    verdict = judge_children([one, other], {one.message: DEAD}, Dependencies(pending=(B,)), NOW)
    assert verdict == Ready(Children(failures={"a": REASON}, pending=frozenset({"b"})))


def test_children_that_were_added_with_their_parent() -> None:
    """The ledger's value wins over the engine's; what is pending is waited for, unless a failure let the parent go on."""
    keys = {A: "a", B: "b"}
    done = {A: ChildRow(outcome="done", result='"kept"')}
    assert judge_added(keys, done, Dependencies(completed={A: "null", B: "2"})) == Ready(
        Children(values={"a": "kept", "b": 2})
    )
    assert judge_added(keys, {}, Dependencies(completed={A: "1"}, pending=(B,))) == Open(waiting=1)
    assert judge_added(keys, {}, Dependencies(forgiven={A: "no"}, pending=(B,))) == Ready(
        Children(failures={"a": "no"}, pending=frozenset({"b"}))
    )


def test_values_and_rows_that_others_left() -> None:
    """Text that is no JSON is itself; of two rows of one child, the one that is done counts."""
    assert [read_value(text) for text in (None, "1", "nonsense", "[" * 100_000)] == [None, 1, "nonsense", "[" * 100_000]
    message = uuid4()
    dead, done = ChildRow(outcome="dead"), ChildRow(outcome="done")
    assert newest([(message, dead), (message, done)]) == newest([(message, done), (message, dead)]) == {message: done}
