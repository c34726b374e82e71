"""What follows from what the children of a job came to. Pure: rows and the engine's view in, a verdict out.

The ledger is asked first, of each child: what it says holds, whatever the engine has kept or lost. Only of children that it knows nothing of,
which have not ended or are run by another system, the engine's word counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from homing.app.flow_plan import Planned
from homing.app.flows import Children
from homing.ledger.gate import Outcome
from homing.queue.flows import Dependencies, FlowJob
from homing.queue.parent import JobRef, OnFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRow:
    """A child's delivery; `letter` is its open dead letter, `error` what that says."""

    outcome: Outcome | None
    generation: int = 1
    result: str | None = None
    letter: int | None = None
    failed_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Ready:
    """The parent goes on with this."""

    children: Children


@dataclass(frozen=True, slots=True)
class Fatal:
    """The death of a child ends the parent."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Children have not ended. `missing`: jobs that must be added first. `revive`: letters of children that died before their parent was
    redriven, which run again with it. `elsewhere`: all that is left runs under another id, so that only the ledger tells when it ends.
    """  # noqa: D205 - one thought

    waiting: int
    missing: tuple[FlowJob, ...] = ()
    revive: tuple[int, ...] = ()
    elsewhere: bool = False


Verdict = Ready | Fatal | Open

State = Literal["value", "death", "open"]


@dataclass(slots=True)
class _Tally:
    values: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    open: list[Planned] = field(default_factory=list)
    revive: list[int] = field(default_factory=list)
    fatal: str | None = None
    goes_on: bool = False

    def bury(self, key: str, reason: str, on_failure: OnFailure) -> None:
        """Count the death of a child."""
        match on_failure:
            case "fail":
                self.fatal = self.fatal or f"its child {key} {reason}"
            case "continue":
                self.failures[key], self.goes_on = reason, True
            case "ignore":
                self.failures[key] = reason
            case "remove":
                pass


def judge_children(
    planned: Sequence[Planned], rows: Mapping[UUID, ChildRow], engine: Dependencies, opened_at: datetime | None
) -> Verdict:
    """What becomes of a run that waits for these children. `opened_at`: since when its own delivery is open, `None` without one."""
    tally = _Tally()
    fatal, pending = frozenset(engine.fatal), frozenset(engine.pending)
    for child in planned:
        row = rows.get(child.message)
        if row is None:
            _count_in_engine(tally, child, engine, is_fatal=child.ref in fatal)
        else:
            _count_in_ledger(tally, child, row, opened_at)
    if tally.fatal is not None:
        return Fatal(tally.fatal)
    if tally.revive or (tally.open and not tally.goes_on):
        return _still_open(tally, rows, pending)
    still = frozenset(child.key for child in tally.open)
    return Ready(Children(values=tally.values, failures=tally.failures, pending=still))


def judge_added(keys: Mapping[JobRef, str], rows: Mapping[JobRef, ChildRow], engine: Dependencies) -> Verdict:
    """The same for children that were added with their parent; which they are, the engine knows. A death that ends it has ended it already."""
    values = {key: read_value(engine.completed[ref]) for ref, key in keys.items() if ref in engine.completed}
    values |= {keys[ref]: read_value(row.result) for ref, row in rows.items() if row.outcome == "done"}
    failures = {keys[ref]: reason for ref, reason in engine.forgiven.items() if keys[ref] not in values}
    still = frozenset(keys[ref] for ref in engine.pending) - values.keys()
    if still and not failures:
        return Open(waiting=len(still))
    return Ready(Children(values=values, failures=failures, pending=still))


def read_value(result: str | None) -> Any:
    """What a child returned: JSON from ours, from others anything, which stays text then."""
    if result is None:
        return None
    try:
        return json.loads(result)
    except (ValueError, RecursionError):
        return result


def _count_in_ledger(tally: _Tally, child: Planned, row: ChildRow, opened_at: datetime | None) -> None:
    match row.outcome:
        case "done":
            tally.values[child.key] = read_value(row.result)
        case "cancelled":
            tally.bury(child.key, "was cancelled", child.on_failure)
        case "dead" if row.letter is not None and _died_before(row, opened_at):
            tally.revive.append(row.letter)
        case "dead":
            letter = f"; letter {row.letter}" if row.letter is not None else ""
            tally.bury(child.key, f"is dead ({row.error or 'its letter is closed'}{letter})", child.on_failure)
        case None:
            tally.open.append(child)


def _count_in_engine(tally: _Tally, child: Planned, engine: Dependencies, *, is_fatal: bool) -> None:
    if child.ref in engine.completed:
        tally.values[child.key] = read_value(engine.completed[child.ref])
    elif child.ref in engine.forgiven:
        tally.bury(child.key, f"failed: {engine.forgiven[child.ref]}", child.on_failure)
    elif is_fatal:
        tally.bury(child.key, "failed", child.on_failure)
    else:
        tally.open.append(child)


def _died_before(row: ChildRow, opened_at: datetime | None) -> bool:
    """Whether the parent was opened again since: whoever redrives it wants its children to run too."""
    return row.failed_at is not None and opened_at is not None and row.failed_at < opened_at


def _still_open(tally: _Tally, rows: Mapping[UUID, ChildRow], pending: frozenset[JobRef]) -> Open:
    here = [child for child in tally.open if not _is_elsewhere(rows.get(child.message))]
    missing = (child for child in here if child.ref not in pending)
    return Open(
        waiting=len(tally.open) + len(tally.revive),
        missing=tuple(job for child in missing for job in child.jobs),
        revive=tuple(tally.revive),
        elsewhere=not here,
    )


def _is_elsewhere(row: ChildRow | None) -> bool:
    """A child that was redriven runs as a delivery, whose job no parent waits for in the engine."""
    return row is not None and row.generation > 1


def newest(rows: Iterable[tuple[UUID, ChildRow]]) -> dict[UUID, ChildRow]:
    """One row per child: where several consumers took it, under a former name and a new one, what is done counts."""
    found: dict[UUID, ChildRow] = {}
    for message, row in rows:
        if message not in found or row.outcome == "done":
            found[message] = row
    return found
