"""Durations by name at the edge of the library, and the one rule by which text becomes a duration."""

import re
from datetime import timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHORT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def milliseconds(n: float) -> timedelta:
    """`n` milliseconds."""
    return timedelta(milliseconds=n)


def seconds(n: float) -> timedelta:
    """`n` seconds."""
    return timedelta(seconds=n)


def minutes(n: float) -> timedelta:
    """`n` minutes."""
    return timedelta(minutes=n)


def hours(n: float) -> timedelta:
    """`n` hours."""
    return timedelta(hours=n)


def days(n: float) -> timedelta:
    """`n` days of 24 hours."""
    return timedelta(days=n)


def parse_duration(text: str) -> timedelta:
    """Read `500ms`, `30s`, `15m`, `2h`, `14d` or a sum such as `1h30m`; a `ValueError` names the text otherwise."""
    compact = text.strip().replace(" ", "")
    parts = _SHORT.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError(f"{text!r} is not a duration: write it as 500ms, 30s, 15m, 2h or 14d")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any date: write a shorter duration") from error


def describe_seconds(total: float) -> str:
    """A duration for people: `2822.0` → `47m 2s`."""
    if total < 0.9995:
        return f"{total * 1000:.0f}ms"
    left, words = round(total), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            words.append(f"{count}{unit}")
    return " ".join(words)
