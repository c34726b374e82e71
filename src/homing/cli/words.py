"""Numbers, ages and names from data, as tables show them: short, and without what a terminal would obey."""

from datetime import datetime

from homing.durations import describe_seconds
from homing.harmless import clean_line
from homing.operations.overview import MOST

LONGEST_NAME = 80


def name(text: str | None) -> str:
    """A name from data, cut to what a column can bear."""
    return clean_line(text or "", LONGEST_NAME)


def number(count: int) -> str:
    """A count; one that stopped at the bound of what is counted says so."""
    return f"{count:,}" if count < MOST else f"{MOST:,}+"


def age(seconds: float) -> str:
    """So long ago; nothing for no time at all."""
    return describe_seconds(float(round(seconds))) if seconds >= 1 else ""


def moment(at: datetime | None) -> str:
    """A moment in UTC, to the second."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"
