"""The page about check-ups names what the doctor finds."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "check-up.md"
SOURCES = [*(ROOT / "src/homing/upkeep/doctor").glob("*.py"), ROOT / "src/homing/operations/doctor.py"]


def test_every_code_is_explained_and_none_is_made_up() -> None:
    """The codes of the page are those that the rules give."""
    given = {
        code
        for source in SOURCES
        for code in re.findall(r'\b(?:ok|warning|error)\(\s*"([a-z0-9-]+)"', source.read_text(encoding="utf-8"))
    }
    _, _, table = PAGE.read_text(encoding="utf-8").partition("## What `doctor` finds")
    explained = set(re.findall(r"`([a-z0-9-]+)`", table))
    assert len(given) > 20
    assert explained == given
