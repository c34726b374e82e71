"""What the gate never does, whatever row and job meet."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from homing.ledger.gate import (
    Adopt,
    Asked,
    Asking,
    Duplicate,
    Expire,
    FinishDead,
    Outcome,
    Row,
    Run,
    Unknown,
    dead_mark,
    decide,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
letters = st.integers(1, 4)
outcomes: st.SearchStrategy[Outcome | None] = st.sampled_from((None, "done", "dead", "cancelled"))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Any row the table's constraints allow."""
    outcome = draw(outcomes)
    return Row(
        generation=draw(st.integers(1, 3)),
        outcome=outcome,
        opened_at=NOW - timedelta(seconds=draw(st.integers(0, 20))),
        result=draw(st.none() | st.just("1")) if outcome == "done" else None,
        letter=draw(st.none() | letters),
        now=NOW,
    )


jobs = st.builds(
    Asking,
    generation=st.none() | st.integers(1, 3),
    mark=st.none() | st.just("done") | letters.map(dead_mark) | st.text(max_size=3),
    stalls=st.integers(0, 9),
    deferred_failure=st.booleans(),
    deadline_seconds=st.integers(1, 20).map(float),
)
asked = st.sampled_from(Asked)


@given(rows(), jobs, asked)
def test_done_never_leads_to_a_run(row: Row, job: Asking, why: Asked) -> None:
    """A settled success is answered with its result, whatever the job says of itself."""
    decision = decide(row, job, why)
    assert (decision == Duplicate(row.result)) == (row.outcome == "done")


@given(jobs, asked)
def test_a_job_of_a_delivery_never_runs_without_its_row(job: Asking, why: Asked) -> None:
    """A missing row means never run, except for a job that no relay made."""
    assert decide(None, job, why) == (Run() if job.generation is None else Unknown())


@given(rows(), jobs, asked)
def test_only_the_mark_of_the_open_letter_adopts(row: Row, job: Asking, why: Asked) -> None:
    """An older letter's mark, no mark, or a bury of the same run never opens a dead delivery."""
    if isinstance(decision := decide(row, job, why), Adopt):
        assert row.outcome == "dead"
        assert row.letter == decision.letter
        assert job.mark == dead_mark(row.letter)
        assert row.generation == (job.generation or 1)
        assert why is not Asked.BURY


@given(rows(), jobs, asked)
def test_only_a_pending_row_of_the_same_generation_runs(row: Row, job: Asking, why: Asked) -> None:
    """A newer row never runs an older job, an older row never a newer one, and nothing runs after its deadline."""
    if isinstance(decide(row, job, why), Run):
        assert row.outcome is None
        assert row.generation == (job.generation or 1)
        assert (row.now - row.opened_at).total_seconds() < job.deadline_seconds
        assert why is Asked.START


@given(rows(), jobs, asked)
def test_only_a_dead_row_is_finished_as_dead(row: Row, job: Asking, why: Asked) -> None:
    """No job fails for good on a row that is not dead, and nothing expires that is not pending."""
    decision = decide(row, job, why)
    if isinstance(decision, FinishDead):
        assert row.outcome == "dead"
    if isinstance(decision, Expire):
        assert row.outcome is None


@given(st.none() | rows(), jobs, asked)
def test_the_same_question_has_the_same_answer(row: Row | None, job: Asking, why: Asked) -> None:
    """The gate keeps nothing between two questions."""
    assert decide(row, job, why) == decide(row, job, why)
