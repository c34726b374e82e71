"""The gate's table, line by line."""

from datetime import UTC, datetime, timedelta

import pytest

from homing.ledger.gate import (
    DONE_MARK,
    SUSPECT_STALLS,
    Adopt,
    Asked,
    Asking,
    Cancelled,
    Decision,
    Duplicate,
    Expire,
    FinishDead,
    GiveBack,
    Outcome,
    Row,
    Run,
    Superseded,
    Unknown,
    dead_mark,
    decide,
)

OPENED = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86400.0


def row(
    outcome: Outcome | None = None,
    *,
    generation: int = 1,
    letter: int | None = None,
    result: str | None = None,
    age_seconds: float = 1.0,
) -> Row:
    """A delivery that was opened `age_seconds` ago."""
    return Row(
        generation=generation,
        outcome=outcome,
        opened_at=OPENED,
        result=result,
        letter=letter,
        now=OPENED + timedelta(seconds=age_seconds),
    )


def job(generation: int | None = 1, *, mark: str | None = None, stalls: int = 0, deferred: bool = False) -> Asking:
    """A job with a deadline of a day."""
    return Asking(generation=generation, mark=mark, stalls=stalls, deferred_failure=deferred, deadline_seconds=DAY)


@pytest.mark.parametrize(
    ("found", "asking", "decision"),
    [
        # missing, or older than the job
        (None, job(1), Unknown()),
        (row(generation=1), job(2), Unknown()),
        (row("dead", generation=1, letter=7), job(2, mark="dead:7"), Unknown()),
        (row("cancelled", generation=1), job(2), Unknown()),
        (None, job(None), Run()),
        # done
        (row("done"), job(1), Duplicate(None)),
        (row("done", result='{"a":1}'), job(1), Duplicate('{"a":1}')),
        (row("done", result="7"), job(None), Duplicate("7")),
        (row("done", generation=3), job(1), Duplicate(None)),
        (row("done", generation=1), job(2), Duplicate(None)),
        (row("done", age_seconds=2 * DAY), job(1, mark="dead:7", stalls=9, deferred=True), Duplicate(None)),
        # cancelled
        (row("cancelled"), job(1), Cancelled()),
        (row("cancelled"), job(None), Cancelled()),
        (row("cancelled", generation=2), job(1), Cancelled()),
        # dead, same generation
        (row("dead", letter=7), job(1, mark="dead:7"), Adopt(7)),
        (row("dead", letter=7), job(None, mark="dead:7"), Adopt(7)),
        (row("dead", letter=7, age_seconds=2 * DAY), job(1, mark="dead:7"), Adopt(7)),
        (row("dead", letter=7), job(1), FinishDead(7)),
        (row("dead", letter=7), job(1, mark="dead:6"), FinishDead(7)),
        (row("dead", letter=7), job(1, mark=DONE_MARK), FinishDead(7)),
        (row("dead", letter=7), job(1, mark="dead:77"), FinishDead(7)),
        (row("dead", letter=None), job(1, mark="dead:7"), FinishDead(None)),
        (row("dead", letter=None), job(1, mark="dead:None"), FinishDead(None)),
        # newer than the job
        (row(generation=2), job(1), Superseded()),
        (row("dead", generation=2, letter=7), job(1), Superseded()),
        (row("dead", generation=2, letter=7), job(1, mark="dead:7"), Superseded()),
        (row(generation=2, age_seconds=2 * DAY), job(1), Superseded()),
        (row(generation=2), job(None), Superseded()),
        # pending, deadline
        (row(age_seconds=DAY), job(1), Expire(OPENED)),
        (row(age_seconds=DAY), job(None), Expire(OPENED)),
        (row(age_seconds=DAY), job(1, stalls=9), Expire(OPENED)),
        (row(age_seconds=DAY - 0.001), job(1), Run()),
        # pending, suspect
        (row(), job(1, stalls=SUSPECT_STALLS), Run(suspect=True)),
        (row(), job(1, stalls=SUSPECT_STALLS - 1), Run()),
        (row(), job(1, deferred=True), Run(suspect=True)),
        # pending otherwise
        (row(), job(1), Run()),
        (row(), job(None), Run()),
        (row(generation=3), job(3), Run()),
        (row(), job(1, mark="dead:7"), Run()),
        (row(age_seconds=-5), job(1), Run()),
    ],
)
def test_before_a_run(found: Row | None, asking: Asking, decision: Decision) -> None:
    """Each line of the table has one decision."""
    assert decide(found, asking) == decision


@pytest.mark.parametrize(
    ("found", "asking", "after_settle", "after_bury"),
    [
        (row(), job(1), GiveBack(), GiveBack()),
        (row(), job(1, stalls=9), GiveBack(), GiveBack()),
        (row(age_seconds=DAY), job(1), Expire(OPENED), Expire(OPENED)),
        (row("done", result="1"), job(1), Duplicate("1"), Duplicate("1")),
        (row("cancelled"), job(1), Cancelled(), Cancelled()),
        (row(generation=2), job(1), Superseded(), Superseded()),
        (row("dead", letter=7), job(1, mark="dead:7"), Adopt(7), FinishDead(7)),
        (row("dead", letter=7), job(1), FinishDead(7), FinishDead(7)),
        (None, job(1), Unknown(), Unknown()),
    ],
)
def test_after_a_statement_that_changed_nothing(
    found: Row | None, asking: Asking, after_settle: Decision, after_bury: Decision
) -> None:
    """A pending row is given back instead of run; a bury never leads to a new run of what it buries."""
    assert decide(found, asking, Asked.SETTLE) == after_settle
    assert decide(found, asking, Asked.BURY) == after_bury


def test_a_deadline_of_any_length_can_be_asked_for() -> None:
    """No date is made of a deadline: one beyond the calendar never passes, and one of zero has passed."""
    endless = Asking(generation=1, deadline_seconds=1e300)
    assert decide(row(age_seconds=9e9), endless) == Run()
    assert decide(row(age_seconds=0), Asking(generation=1, deadline_seconds=0)) == Expire(OPENED)


def test_a_mark_names_its_letter() -> None:
    """Two deaths leave two marks; a death without a letter leaves none."""
    assert dead_mark(7) == "dead:7"
    assert dead_mark(None) is None
    assert DONE_MARK == "done"
