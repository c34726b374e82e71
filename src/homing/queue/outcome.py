"""What a run came to: a closed set. Deciding makes one of these values; ending the job in the engine carries it out."""

from dataclasses import dataclass
from typing import Literal

from homing.queue.parked import ParkedKind
from homing.queue.port import Limit
from homing.records import quickly_made


@quickly_made
@dataclass(frozen=True, slots=True)
class Completed:
    """It is done, now (`completed`) or by an earlier run (`duplicate`), or need not be done any more. `result` is JSON text."""

    result: str = "null"
    how: Literal["completed", "duplicate", "cancelled", "superseded"] = "completed"


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed and has attempts left: again after `delay_seconds`; spends an attempt."""

    delay_seconds: float
    reason: str
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Postponed:
    """It was not its turn: again after `delay_seconds`; spends no attempt, and a start only when it was snoozed."""

    delay_seconds: float
    reason: str
    how: Literal["snoozed", "throttled", "interrupted", "waiting_children"] = "snoozed"


@dataclass(frozen=True, slots=True)
class Parked:
    """Nobody here knows its kind: again after `delay_seconds`, or as soon as a worker that knows it sees it.

    Spends no attempt and no start.
    """

    kind: ParkedKind
    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The limit of its key is used up: again when it has its turn, after `delay_seconds`. It has not started."""

    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class KeyPaused:
    """The quota of its key is used up: no job with `key` starts for `delay_seconds`, this one included. Spends no attempt and no start."""

    key: str
    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The quota behind its queue is used up: the queue starts nothing for `delay_seconds`, and the job is first after that.

    Spends no attempt and no start. `limit` is the queue's own, if it has one.
    """

    delay_seconds: float
    reason: str
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """It will not run again by itself, and its letter is written: `letter` names it; `None` = there is no letter to name.

    A `duplicate` is not dead: an earlier run settled it, and its handler wants that to be seen.
    """

    reason: str
    stack: str = ""
    letter: int | None = None
    how: Literal["dead", "duplicate"] = "dead"


@dataclass(frozen=True, slots=True)
class Waiting:
    """It waits for its children, until the engine knows that they have ended. Spends no attempt and no start."""

    reason: str


@dataclass(frozen=True, slots=True)
class GivenBack:
    """It goes back untouched, to be claimed next; its turn and its attempt are refunded."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Another run holds it: this one can change nothing in the queue any more."""

    reason: str


Outcome = (
    Completed | Retry | Postponed | Parked | HeldBack | KeyPaused | Paused | Dead | Waiting | GivenBack | LeaseLost
)


def outcome_name(outcome: Outcome) -> str:
    """The word for logs and metrics."""
    match outcome:
        case Completed(how=how) | Postponed(how=how) | Dead(how=how):
            return how
        case Retry():
            return "retry"
        case Parked():
            return "parked"
        case Paused() | KeyPaused() | HeldBack():
            return "throttled"
        case Waiting():
            return "waiting_children"
        case GivenBack():
            return "interrupted"
        case LeaseLost():
            return "lease_lost"
