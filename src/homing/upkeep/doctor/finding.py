"""What an examination says: one line for each thing that was looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    """As it should be."""
    WARNING = "warning"
    """It works, with a cost or a risk that somebody should have chosen."""
    ERROR = "error"
    """A promise does not hold, or work stands still."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` is stable, for scripts; `fix` is empty where nothing is wrong."""

    level: Level
    code: str
    text: str
    fix: str = ""


def ok(code: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, code, text)


def warning(code: str, text: str, fix: str) -> Finding:
    """Something to know."""
    return Finding(Level.WARNING, code, text, fix)


def error(code: str, text: str, fix: str) -> Finding:
    """Something to mend."""
    return Finding(Level.ERROR, code, text, fix)
