"""The gate: what to do with a job, given what the ledger says of its delivery. Pure: rows and times in, a decision out.

It is asked before every run, and after every statement that changed no row. Only the row decides; what the engine says of a job
(attempts, stalls, completed, failed) is advice.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Literal

from homing.records import quickly_made

Outcome = Literal["done", "dead", "cancelled"]

SUSPECT_STALLS = 3
"""Claims that ended without an end before a job is a suspect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A delivery as the ledger has it; `letter` is its open dead letter, `now` the database's time of reading."""

    generation: int
    outcome: Outcome | None
    opened_at: datetime
    result: str | None
    letter: int | None
    now: datetime


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What the gate must know of the job.

    `generation` is `None` for a job that no relay made: its row, if it has one, began as generation 1.
    """

    generation: int | None
    mark: str | None = None
    stalls: int = 0
    deferred_failure: bool = False
    deadline_seconds: float

    @property
    def suspect(self) -> bool:
        """Whether it ended so many workers or leases that it must run alone."""
        return self.deferred_failure or self.stalls >= SUSPECT_STALLS


class Asked(Enum):
    """Why the gate was asked."""

    START = "before a run"
    SETTLE = "settle changed no row"
    BURY = "bury changed no row"


@dataclass(frozen=True, slots=True)
class Run:
    """Run it. `suspect`: it ended several workers or leases before."""

    suspect: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An earlier run settled it: finish as completed with the result that was kept."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """An operator cancelled it: finish as completed, do not run."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A redrive opened a newer generation: finish as completed, do not run."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """A person retried the dead job in place: open the row again, then run."""

    letter: int


@dataclass(frozen=True, slots=True)
class FinishDead:
    """It was buried, and only the engine does not know yet: finish as failed."""

    letter: int | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The job names a delivery that the ledger does not have: never run, finish as failed, show."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Its deadline has passed: bury as expired."""

    opened_at: datetime


@dataclass(frozen=True, slots=True)
class GiveBack:
    """It is pending after all (another run rolled back): give it back without spending an attempt."""


Decision = Run | Duplicate | Cancelled | Superseded | Adopt | FinishDead | Unknown | Expire | GiveBack


def decide(row: Row | None, job: Asking, asked: Asked = Asked.START) -> Decision:
    """The gate's table, line by line."""
    if row is None:
        return Run() if job.generation is None else Unknown()
    if row.outcome == "done":
        return Duplicate(row.result)
    if job.generation is not None and row.generation < job.generation:
        return Unknown()
    if row.outcome == "cancelled":
        return Cancelled()
    return _decide_open(row, job, asked)


def dead_mark(letter: int | None) -> str | None:
    """The mark that a finish leaves in a dead job: it names the letter, so that a later death is not taken for this one."""
    return None if letter is None else f"dead:{letter}"


DONE_MARK = "done"
"""The mark that a finish leaves in a completed job."""


def _decide_open(row: Row, job: Asking, asked: Asked) -> Decision:
    if row.generation > (job.generation or 1):
        return Superseded()
    if row.outcome != "dead":
        return _decide_pending(row, job, asked)
    if row.letter is not None and job.mark == dead_mark(row.letter) and asked is not Asked.BURY:
        return Adopt(row.letter)
    return FinishDead(row.letter)


def _decide_pending(row: Row, job: Asking, asked: Asked) -> Decision:
    if (row.now - row.opened_at).total_seconds() >= job.deadline_seconds:
        return Expire(row.opened_at)
    if asked is not Asked.START:
        return GiveBack()
    return Run(suspect=job.suspect)
