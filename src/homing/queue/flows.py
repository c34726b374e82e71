"""Trees of jobs: a parent runs after its children, which may be in other queues, and sees what they came to.

A child that completes, dies, is removed or is lost stops counting, in the step that ends it or at the next look: no parent waits for ever.
What its death means to its parent is said when it is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.parent import JobRef

SOON_SECONDS = 0.05
"""After how long a job runs again that wanted to wait for children, and had none to wait for: at once, but never in a tight circle."""

_CHILD_FAILED = ("child ", " failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowJob:
    """A job of a flow and its queue; whose child it is says the job itself. `waits`: it has children, and runs after them."""

    queue: str
    job: NewJob
    waits: bool = False

    @property
    def ref(self) -> JobRef:
        """Where it is."""
        return JobRef(self.queue, self.job.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What the engine shows of a job's family. Of many children it shows some; the numbers are of all.

    `pending`: not ended yet. `completed`: what each returned, which should be JSON text. `forgiven`: why each failed whose death does not end
    its parent. `fatal`: those whose death does.
    """

    parent: JobRef | None = None
    pending: tuple[JobRef, ...] = ()
    completed: Mapping[JobRef, str] = field(default_factory=dict)
    forgiven: Mapping[JobRef, str] = field(default_factory=dict)
    fatal: tuple[JobRef, ...] = ()
    pending_count: int = 0
    completed_count: int = 0
    forgiven_count: int = 0
    fatal_count: int = 0

    @property
    def count(self) -> int:
        """How many children count, in whatever state."""
        return self.pending_count + self.completed_count + self.forgiven_count + self.fatal_count


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A page of the jobs that wait for children was looked at: where it ended (`None` = there are no more), and who goes on.

    `waiting`: those that wait still, and for how many seconds they have.
    """

    after: str | None
    released: tuple[JobId, ...] = ()
    waiting: Mapping[JobId, float] = field(default_factory=dict)


def failed_child(deferred_failure: str | None) -> str | None:
    """The key of the child whose death ends this job, from the engine's own verdict on it; `None` where that is about something else."""
    before, after = _CHILD_FAILED
    if deferred_failure is None or not (deferred_failure.startswith(before) and deferred_failure.endswith(after)):
        return None
    return deferred_failure.removeprefix(before).removesuffix(after)


def verdict_on(child_key: str) -> str:
    """The engine's own verdict on a parent whose child died, in BullMQ's words."""
    before, after = _CHILD_FAILED
    return f"{before}{child_key}{after}"
