"""The page of what breaks is complete: each case is there once, with tests that exist."""

from tests.docs.proofs import rows_of, unproven

PAGE = "explanation/what-breaks.md"
CASES = {
    "A": 15,
    "B": 10,
    "C": 6,
    "P": 17,
}
"""How many rows each letter has."""


def test_every_case_has_its_test() -> None:
    """Each row names at least one test, and each named test is there."""
    assert unproven(PAGE) == []


def test_every_case_is_there_once() -> None:
    """A1 to A15, B1 to B10, C1 to C6 and the promises P1 to P17 in order, and what other systems met, each once."""
    names = [row.name for row in rows_of(PAGE)]
    expected = [f"{letter}{number}" for letter, last in CASES.items() for number in range(1, last + 1)]
    assert names[: len(expected)] == expected
    others = names[len(expected) :]
    assert others == sorted(set(others))
    assert all(name.startswith("F-") for name in others)
    assert len(others) > 50
