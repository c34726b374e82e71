"""The look: what an unsettled delivery's job looks like in the engine, and what follows. Pure."""

from enum import Enum

from homing.ledger.gate import DONE_MARK


class Finding(Enum):
    """What the engine shows for the job of an unsettled delivery."""

    ALIVE = "alive"
    """It waits, is delayed or runs: look again later."""
    GONE = "gone"
    """Nothing is there: dispatch it again."""
    GHOST = "ghost"
    """A hash without a job, left by a claim of a lost job: remove it, dispatch again."""
    UNSETTLED = "completed by us, not settled"
    """Our mark without our settle: PostgreSQL lost a commit. Remove it, dispatch again, say so."""
    SWALLOWED = "completed by a stranger"
    """Completed without our mark: somebody else's worker did it. Remove it, dispatch again, say so."""
    BURIED = "failed by us, not buried"
    """Our mark without our letter: PostgreSQL lost the bury. Bury again."""
    FAILED = "failed by a stranger"
    """Failed without our mark: another worker, or the engine itself, gave up. Bury with its reason."""

    @property
    def dispatch_again(self) -> bool:
        """Whether the delivery needs a job again."""
        return self in (Finding.GONE, Finding.GHOST, Finding.UNSETTLED, Finding.SWALLOWED)

    @property
    def remove_first(self) -> bool:
        """Whether something of the old job is in the way of a new one."""
        return self.dispatch_again and self is not Finding.GONE


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
