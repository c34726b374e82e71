"""The look: what an unsettled delivery's job looks like in the engine, and what follows. Pure."""

from enum import Enum

from homing.ledger.gate import DONE_MARK

VANISHED_LIMIT = 5
"""Times a delivery's job may be found gone within one epoch before the delivery is dead."""

FOREIGN_VANISHED_LIMIT = 1
"""The same where another system ran the job and its finished jobs are not kept: it may have done the work each time."""


class Finding(Enum):
    """What the engine shows for the job of an unsettled delivery."""

    ALIVE = "alive"
    """It waits, is delayed or runs: look again later."""
    GONE = "gone"
    """Nothing is there: dispatch it again."""
    GHOST = "ghost"
    """A hash without a job, left by a claim of a lost job: remove it, dispatch again."""
    ADRIFT = "alive in no list"
    """A job that neither waits nor runs nor is delayed: nobody will ever claim it. Remove it, dispatch again."""
    UNSETTLED = "completed by us, not settled"
    """Our mark without our settle: PostgreSQL lost a commit. Remove it, dispatch again, say so."""
    SWALLOWED = "completed by a stranger"
    """Completed without our mark: somebody else's worker did it. Remove it, dispatch again, say so."""
    BURIED = "failed by us, not buried"
    """Our mark without our letter: PostgreSQL lost the bury. Bury again."""
    FAILED = "failed by a stranger"
    """Failed without our mark: another worker, or the engine itself, gave up. Bury with its reason."""


class Step(Enum):
    """What the sweep does about a finding."""

    LEAVE = "leave"
    """Look again later."""
    DISPATCH = "dispatch again"
    """The delivery needs a job; what lies in its way goes first."""
    BURY = "bury"
    """It is dead, as the job's own fields tell."""
    SETTLE = "settle"
    """Another system has it, or has done it, and that is all that was promised."""


_OURS = {
    Finding.ALIVE: Step.LEAVE,
    Finding.GONE: Step.DISPATCH,
    Finding.GHOST: Step.DISPATCH,
    Finding.ADRIFT: Step.DISPATCH,
    Finding.UNSETTLED: Step.DISPATCH,
    Finding.SWALLOWED: Step.DISPATCH,
    Finding.BURIED: Step.BURY,
    Finding.FAILED: Step.BURY,
}
_FOREIGN = _OURS | {Finding.SWALLOWED: Step.SETTLE}
_ELSEWHERE = dict.fromkeys(Finding, Step.SETTLE) | {
    Finding.GONE: Step.DISPATCH,
    Finding.GHOST: Step.DISPATCH,
    Finding.ADRIFT: Step.DISPATCH,
}


def find(*, exists: bool, named: bool, finished: bool, failed: bool, mark: str | None) -> Finding:
    """Read one job's fields: whether its hash exists, has a name, is finished, how, and which mark it carries."""
    if not exists:
        return Finding.GONE
    if not named:
        return Finding.GHOST
    if not finished:
        return Finding.ALIVE
    if mark == DONE_MARK:
        return Finding.UNSETTLED
    if mark is not None and mark.startswith("dead:"):
        return Finding.BURIED
    return Finding.FAILED if failed else Finding.SWALLOWED


def next_step(finding: Finding, mode: str | None) -> Step:
    """What follows from a finding for a delivery whose consumer has this mode; `None`, `tx` and `after` are ours."""
    match mode:
        case "foreign":
            return _FOREIGN[finding]
        case "elsewhere":
            return _ELSEWHERE[finding]
        case _:
            return _OURS[finding]


def vanished_limit(mode: str | None) -> int:
    """How often a job may be found gone within one epoch."""
    return FOREIGN_VANISHED_LIMIT if mode == "foreign" else VANISHED_LIMIT
