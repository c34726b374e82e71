"""Numbers, ages, moments and names as pages show them, and hostile text made harmless. Pure."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from homing.durations import describe_seconds
from homing.harmless import clean
from homing.operations.overview import MOST

# What turns the reading direction around, or is not seen at all: names that look like others.
_UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")

_PLAIN_ID = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,299}")


def harmless(value: object) -> object:
    """What a template prints: text loses what no person can see; everything else is left to escaping."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", clean(value))
    return value


def number(count: float) -> str:
    """An exact number, in groups of three digits."""
    return f"{count:,.0f}"


def bounded(count: int) -> str:
    """A number of the ledger, which counts up to a bound; one that stopped there says so."""
    return f"{count:,}" if count < MOST else f"{MOST:,}+"


def rate(per_second: float) -> str:
    """How often in a second, or in a minute where that says more."""
    if per_second == 0:
        return "0/s"
    if per_second < 0.95:
        return f"{per_second * 60:.1f}/min"
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s"


def age(seconds: float | None) -> str:
    """A duration in its two largest units."""
    if seconds is None:
        return ""
    if seconds < 1:
        return "0s" if seconds < 0.001 else f"{seconds * 1000:.0f}ms"
    return " ".join(describe_seconds(float(round(seconds))).split()[:2])


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """How long ago something was, or in how long it will be."""
    if at is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{age(seconds)} ago" if seconds > 0 else f"in {age(-seconds)}"


def moment(at: datetime | None) -> str:
    """A moment in UTC, to the second."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(at: datetime | None) -> str:
    """The time of day in UTC, to the millisecond."""
    return "" if at is None else f"{at.astimezone(UTC):%H:%M:%S}.{at.microsecond // 1000:03d}"


def sentence(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def day(at: datetime) -> str:
    """The date in UTC."""
    return f"{at.astimezone(UTC):%A, %-d %B %Y}"


def cut(text: str | None, most: int = 120) -> str:
    """One line of at most so many characters."""
    line = " ".join((text or "").split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def ticks(text: str) -> Markup:
    """Text in which what stands between backticks is a command."""
    parts = [escape(harmless(part)) for part in text.split("`")]
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def count_of(count: float, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 job`, `2 jobs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def pretty(value: Any, most: int = 20_000) -> str:
    """A JSON value on lines that can be read, cut where it is too long."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters"


def query(values: Mapping[str, object]) -> str:
    """`?a=1&b=2` of what is given."""
    given = {name: value for name, value in values.items() if value not in (None, "", ())}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def job_path(job_id: str) -> str:
    """The path of a job's case file; ids that no path can carry go behind the question mark."""
    return f"/jobs/{quote(job_id, safe=':')}" if _PLAIN_ID.fullmatch(job_id) else f"/job?{urlencode({'id': job_id})}"
