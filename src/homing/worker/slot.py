"""A slot of a lane, taken by one job from its claim to its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from homing.queue.job import ClaimedJob
from homing.queue.outcome import Parked
from homing.queue.port import ClaimRequest, Finished
from homing.worker.opening import Unreadable
from homing.worker.run import Run
from homing.worker.telling import Notes


@dataclass(frozen=True, slots=True)
class Wanted:
    """A claim, and for how many jobs."""

    request: ClaimRequest
    most: int


class Owner(Protocol):
    """Whose slots they are: it says what may follow a job, and hears what did."""

    queue: str
    together: int
    """The most jobs that are finished and claimed together."""

    def returned(self, count: int, *, waiting: bool = False) -> None:
        """So many handlers have come to their end: what is left to do for their jobs needs no slot. `waiting`: it has to wait for its turn."""
        ...

    def ask(self, ends: int) -> Wanted | None:
        """What to ask for in place of so many jobs that end now; `None` = nothing. It is kept free until `heard`."""
        ...

    def heard(self, wanted: Wanted | None) -> None:
        """The engine has answered, or did not; jobs that came with the answer follow at once, in `left`."""
        ...

    def left(self, ends: Sequence[Finished | None], *, slots: int = 0, wanted: Wanted | None = None) -> None:
        """Jobs have ended, with the engine's answers; `None` where it was not asked: something failed. `slots`: those that had not returned."""
        ...


@dataclass(slots=True, eq=False)
class Slot:
    """One job under way. `started` (monotonic): when it was claimed; `opened`: what it was found to be, once it was looked at.

    `notes`: what it tells, where its handler can; `fields`: of its log lines, for a plain run; `has_returned`: its handler has come to its end.
    """

    job: ClaimedJob
    owner: Owner
    started: float
    opened: Run | Parked | Unreadable | None = None
    notes: Notes | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    has_returned: bool = False
    is_left: bool = False

    @property
    def run(self) -> Run | None:
        """What can be run of it."""
        return self.opened if isinstance(self.opened, Run) else None


@dataclass(slots=True, eq=False)
class Plain:
    """A plain run under way. `result`: JSON text, once its handler has returned; `finished`: the engine's answer, once the job has ended there."""

    slot: Slot
    run: Run
    result: str = "null"
    finished: Finished = field(init=False)
