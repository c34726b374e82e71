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


class Owner(Protocol):
    """Whose slots they are: it says what may follow a job, and hears what did."""

    queue: str

    def next_request(self) -> ClaimRequest | None:
        """What to ask for in place of a job that ends now; `None` = nothing."""
        ...

    def left(self, answers: Sequence[Finished | None]) -> None:
        """Slots whose jobs have ended, with the engine's answers; `None` where it was not asked: something failed."""
        ...


@dataclass(slots=True, eq=False)
class Slot:
    """One job under way. `started` (monotonic): when it was claimed; `opened`: what it was found to be, once it was looked at.

    `notes`: what it tells, where its handler can; `fields`: of its log lines, for a plain run.
    """

    job: ClaimedJob
    owner: Owner
    started: float
    opened: Run | Parked | Unreadable | None = None
    notes: Notes | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
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
