"""What a job's fields in the engine say about an unsettled delivery."""

import pytest

from homing.ledger.look import Finding, Step, find, next_step, vanished_limit


@pytest.mark.parametrize(
    ("exists", "named", "finished", "failed", "mark", "finding"),
    [
        (False, False, False, False, None, Finding.GONE),
        (True, False, False, False, None, Finding.GHOST),
        (True, False, True, True, "done", Finding.GHOST),
        (True, True, False, False, None, Finding.ALIVE),
        (True, True, False, False, "dead:7", Finding.ALIVE),
        (True, True, False, True, None, Finding.ALIVE),
        (True, True, True, False, "done", Finding.UNSETTLED),
        (True, True, True, True, "done", Finding.UNSETTLED),
        (True, True, True, True, "dead:7", Finding.BURIED),
        (True, True, True, False, "dead:7", Finding.BURIED),
        (True, True, True, False, None, Finding.SWALLOWED),
        (True, True, True, False, "somebody else's", Finding.SWALLOWED),
        (True, True, True, True, None, Finding.FAILED),
        (True, True, True, True, "somebody else's", Finding.FAILED),
    ],
)
def test_each_reading_has_one_finding(
    *, exists: bool, named: bool, finished: bool, failed: bool, mark: str | None, finding: Finding
) -> None:
    """The table: existence, name, end and mark, in this order."""
    assert find(exists=exists, named=named, finished=finished, failed=failed, mark=mark) is finding


OURS = {
    Finding.ALIVE: Step.LEAVE,
    Finding.GONE: Step.DISPATCH,
    Finding.GHOST: Step.DISPATCH,
    Finding.ADRIFT: Step.DISPATCH,
    Finding.UNSETTLED: Step.DISPATCH,
    Finding.SWALLOWED: Step.DISPATCH,
    Finding.BURIED: Step.BURY,
    Finding.FAILED: Step.BURY,
}
FOREIGN = {**OURS, Finding.SWALLOWED: Step.SETTLE}
ELSEWHERE = {finding: Step.DISPATCH if step is Step.DISPATCH else Step.SETTLE for finding, step in OURS.items()} | {
    Finding.UNSETTLED: Step.SETTLE,
    Finding.SWALLOWED: Step.SETTLE,
}


@pytest.mark.parametrize("finding", Finding)
def test_what_follows_depends_on_who_was_to_do_it(finding: Finding) -> None:
    """Ours get a job that can run or a letter; a foreign system's completed job is its settle; what is elsewhere was handed over."""
    for ours in ("tx", "after", None):
        assert next_step(finding, ours) is OURS[finding]
    assert next_step(finding, "foreign") is FOREIGN[finding]
    assert next_step(finding, "elsewhere") is ELSEWHERE[finding]


def test_a_foreign_job_may_vanish_less_often() -> None:
    """Another system may have done the work each time a job of its vanished: once is enough there."""
    assert vanished_limit("foreign") < vanished_limit("tx") == vanished_limit("elsewhere") == vanished_limit(None)
