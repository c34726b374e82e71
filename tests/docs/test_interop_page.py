"""The page on Node names tests that exist, and has a row for each file of tests that run with Node."""

from pathlib import Path

from tests.docs.proofs import rows_of, unproven

PAGE = "explanation/interop.md"
FOLDER = Path(__file__).parents[1] / "interop"


def test_every_case_has_its_test() -> None:
    """Each row names at least one test, and each named test is there."""
    assert unproven(PAGE) == []


def test_every_test_with_node_is_on_the_page() -> None:
    """No file of tests is missing from it."""
    named = {file for row in rows_of(PAGE) for file, _ in row.tests}
    assert {f"interop/{path.name}" for path in FOLDER.glob("test_*.py")} <= named
