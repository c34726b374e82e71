"""How a trace travels in text: W3C's `traceparent`, and the telemetry metadata in the options of BullMQ's jobs. Pure.

`tracestate` and baggage are left behind: they may hold anything, and nobody asked for a copy of them in every row.
"""

import json
import re
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_LONGEST_METADATA = 16_384  # characters: other producers may send anything


@dataclass(frozen=True, slots=True)
class Parent:
    """A `traceparent` that is valid: `text` is what it is written as."""

    text: str
    trace_id: str
    span_id: str
    flags: int


def parse_traceparent(text: object) -> Parent | None:
    """A `traceparent` taken apart; `None` for what W3C Trace Context calls invalid. Case and blanks around it are forgiven."""
    found = _TRACEPARENT.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None or found[1] == "0" * 32 or found[2] == "0" * 16:
        return None
    return Parent(found[0], found[1], found[2], int(found[3], 16))


def write_metadata(traceparent: str | None) -> str | None:
    """What `opts.tm` of a job holds, as Node's `bullmq-otel` reads and writes it: the propagation headers in JSON."""
    parent = parse_traceparent(traceparent)
    return None if parent is None else f'{{"traceparent":"{parent.text}"}}'


def read_metadata(metadata: object) -> str | None:
    """The valid `traceparent` in a job's `opts.tm`, whoever wrote it."""
    if not isinstance(metadata, str) or len(metadata) > _LONGEST_METADATA:
        return None
    try:
        headers = json.loads(metadata)
    except (ValueError, RecursionError):
        return None
    parent = parse_traceparent(headers.get("traceparent")) if isinstance(headers, dict) else None
    return None if parent is None else parent.text
