"""The page of what a worker survives names tests that exist, and none of its tables is empty."""

from tests.docs.proofs import rows_of, unproven

PAGE = "explanation/what-a-worker-survives.md"


def test_every_case_has_its_test() -> None:
    """Each row names at least one test, and each named test is there."""
    assert unproven(PAGE) == []
    assert len(rows_of(PAGE)) > 50
