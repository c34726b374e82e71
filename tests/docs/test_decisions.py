"""The decision records: all with the same parts, all in the index."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("[0-9]*.md") if not path.name.startswith("0000"))


def heading(path: Path) -> tuple[int, str]:
    """Number and title from the first line: `# 3. Title`, or `# 0003 Title`."""
    found = re.match(r"# (\d+)\.? (.+)", path.read_text(encoding="utf-8"))
    assert found is not None, f"{path.name} begins with no numbered title"
    return int(found[1]), found[2]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_has_its_parts(path: Path) -> None:
    """Number in name and title agree; context, decision and the reason to revisit come in this order."""
    assert heading(path)[0] == int(path.name[:4])
    parts = re.findall(r"^(?:## |\*\*)(Context|Decision|Revisit)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert parts == ["Context", "Decision", "Revisit"]


def test_the_index_names_every_decision() -> None:
    """The index links each record once, under its number and title, in order."""
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    titles = [(*heading(path), path.name) for path in RECORDS]
    expected = [f"[{number}. {title}]({name})" for number, title, name in titles]
    assert re.findall(r"^- (\[.+\]\(.+\))$", index, re.MULTILINE) == expected
