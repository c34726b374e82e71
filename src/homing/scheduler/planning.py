"""What is to be done about a queue's schedules: what is written down compared with what the engine holds. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

OVERDUE_MS = 60_000
"""How long the tick that an engine holds may be due before somebody asks what became of it."""


@dataclass(frozen=True, slots=True)
class Known:
    """A schedule as it is written down, in short."""

    name: str
    by_code: bool
    paused: bool
    next_ms: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Names of schedules, by what is to be done about them.

    `push`: the engine lacks it; `take`: it is paused and the engine holds it; `adopt`: somebody made it in the engine; `forget`: whoever made it
    there removed it; `read`: its tick moved on, or nobody here has read it yet; `overdue`: its tick should have been claimed long ago.
    """

    push: list[str] = field(default_factory=list)
    take: list[str] = field(default_factory=list)
    adopt: list[str] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)


def plan(rows: Iterable[Known], due: Mapping[str, int], now_ms: int, *, whole: bool = False) -> Plan:
    """Compare what is written down with the next ticks that the engine holds, both of one incarnation of its data.

    `whole`: read every schedule that the engine holds, as the first look of a process does: what whoever wrote it down could not tell the engine
    any more shows in nothing else.
    """
    decided, names = Plan(), set()
    for row in rows:
        names.add(row.name)
        next_ms = due.get(row.name)
        if row.paused:
            if next_ms is not None:
                decided.take.append(row.name)
        elif next_ms is None:
            (decided.push if row.by_code else decided.forget).append(row.name)
        else:
            if whole or next_ms != row.next_ms:
                decided.read.append(row.name)
            if next_ms < now_ms - OVERDUE_MS:
                decided.overdue.append(row.name)
    decided.adopt.extend(name for name in due if name not in names)
    return decided
