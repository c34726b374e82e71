"""A job in memory, with everything that happened to it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from homing.ids import LeaseToken
from homing.queue.job import ClaimedJob, JobEnd, Lease, NewJob
from homing.queue.memory_family import Family
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.trace import parse_traceparent


class State(Enum):
    """Where a job is."""

    WAITING = "waiting"
    PRIORITIZED = "prioritized"
    DELAYED = "delayed"
    ACTIVE = "active"
    WAITING_CHILDREN = "waiting-children"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(slots=True)
class Entry:
    """A job and what happened to it. `place` orders it among jobs of its state; `parked` says whom it waits for, `progress` and `lines` what it told."""

    job: NewJob
    state: State
    starts: int = 0
    attempts_made: int = 0
    stalls: int = 0
    mark: str | None = None
    end: JobEnd = field(default_factory=JobEnd)
    token: LeaseToken | None = None
    lease_ends: float = 0.0
    place: tuple[float, int] = (0.0, 0)
    parked: ParkedKind | None = None
    progress: str | None = None
    lines: list[str] = field(default_factory=list)
    family: Family = field(default_factory=Family)
    deferred_failure: str | None = None

    def claimed(self, queue: str, token: LeaseToken) -> ClaimedJob:
        """The job as its new holder gets it."""
        return ClaimedJob(
            lease=Lease(queue, self.job.id, token),
            name=self.job.name,
            data=self.job.data,
            timestamp_ms=self.job.timestamp_ms,
            attempts=self.job.attempts,
            starts=self.starts,
            attempts_made=self.attempts_made,
            stalls=self.stalls,
            mark=self.mark,
            deferred_failure=self.deferred_failure,
            traceparent=parent.text if (parent := parse_traceparent(self.job.traceparent)) else None,
        )


def count_parked(entries: Iterable[Entry]) -> list[ParkedJobs]:
    """The parked ones by kind, in order."""
    counted = Counter(entry.parked for entry in entries if entry.parked is not None)
    return sorted(ParkedJobs(kind, number) for kind, number in counted.items())
