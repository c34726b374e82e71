"""What a job's fields in the engine say about an unsettled delivery."""

import pytest

from homing.ledger.look import Finding, find


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


@pytest.mark.parametrize("finding", Finding)
def test_what_is_dispatched_again_and_what_is_removed_first(finding: Finding) -> None:
    """A delivery without a job that can run gets one; what lies in its way goes first; the rest is left alone."""
    again = {Finding.GONE, Finding.GHOST, Finding.UNSETTLED, Finding.SWALLOWED}
    assert finding.dispatch_again == (finding in again)
    assert finding.remove_first == (finding in again - {Finding.GONE})
