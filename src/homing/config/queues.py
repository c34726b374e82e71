"""Which queues a worker serves, as people type it: `payments,shipping:4`."""

import re
from collections.abc import Mapping

_CHOICE = re.compile(r"([^\s:,]+)(?::(\d+))?")


def parse_queues(text: str) -> dict[str, int | None]:
    """Read `payments,shipping:4`: names, each with its own concurrency or `None`; a `ValueError` names the wrong part."""
    chosen: dict[str, int | None] = {}
    for part in (part.strip() for part in text.split(",")):
        found = _CHOICE.fullmatch(part)
        if found is None or found[2] == "0":
            raise ValueError(f"{part!r} is no queue: write name or name:concurrency, as in payments,shipping:4")
        if found[1] in chosen:
            raise ValueError(f"queue {found[1]!r} is named twice in {text!r}")
        chosen[found[1]] = int(found[2]) if found[2] else None
    return chosen


def read_queues(value: object) -> object:
    """Accept the typed form, a list of names and a table of concurrencies; everything else is left to the checker."""
    match value:
        case str():
            return parse_queues(value)
        case list():
            return parse_queues(",".join(str(part) for part in value))
        case _:
            return value


def describe_queues(chosen: Mapping[str, int | None]) -> str:
    """The typed form of a choice."""
    return ",".join(name if slots is None else f"{name}:{slots}" for name, slots in chosen.items())
