"""The decision records: all of one shape, all in the index."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("[0-9]*.md") if not path.name.startswith("0000"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_has_its_parts(path: Path) -> None:
    """Number in name and title agree, and the four headings stand in their order."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(path.name[:4])}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences", "Revisit"]


def test_the_index_names_every_decision() -> None:
    """The index links each record once, under its title, in order."""
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    expected = [f"[{path.read_text(encoding='utf-8').splitlines()[0][2:]}]({path.name})" for path in RECORDS]
    assert re.findall(r"^- (\[.+\]\(.+\))$", index, re.MULTILINE) == expected
