"""What Homing asks of an engine: a narrow protocol, the same for Redis and for memory, with one contract suite.

Times go in as seconds. An engine that cannot be reached, is loading, full or read-only raises `ServerUnavailable` and concludes nothing:
silence never means that a job is gone. Every call may be repeated after an error; adding twice is adding once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from homing.errors import HomingError
from homing.ids import JobId, LeaseToken
from homing.queue.flows import Dependencies, FlowJob, Reviewed
from homing.queue.job import ClaimedJob, JobCounts, JobEnd, JobTrace, KeepRule, Lease, NewJob
from homing.queue.notes import Noting
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.queue.schedules import Scheduling
from homing.records import quickly_made


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `jobs` starts per `seconds`, over all workers of the queue."""

    jobs: int
    seconds: float


class Unsaid(Enum):
    """Nobody here said anything: what is set already stays."""

    UNSAID = "unsaid"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What a queue imposes on all its workers, ours or not: `concurrency` = jobs at once over all of them.

    `None` = no bound, a former one is removed. `paused`: no worker starts a job until somebody resumes the queue.
    """

    concurrency: int | Unsaid | None = Unsaid.UNSAID
    limit: Limit | Unsaid | None = Unsaid.UNSAID
    paused: bool | Unsaid = Unsaid.UNSAID


@dataclass(frozen=True, slots=True)
class Observed:
    """A queue's data as one read found it: `identity` changes when data may have been lost; `paused` is of that incarnation."""

    identity: str
    paused: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that the engine would not take; `error` says why, for the row that keeps it.

    `for_good`: the job itself can never be taken. Otherwise the engine erred, and may take it another time.
    """

    error: str
    for_good: bool = True


class Accepted(Enum):
    """The job is in the engine, now or from an earlier add of the same id."""

    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """The job was not added: another one stands for it, by the de-duplication that both of them ask for."""

    standing: JobId


AddResult = Accepted | Deduplicated | Refused


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The terms of a claim: a fresh token, the length of the lease, the queue's limit, and who asks.

    As everywhere in BullMQ, the queue's settings decide how many jobs may start, and the claim over which time; each
    stands in for the other where one of them says nothing.
    """

    token: LeaseToken
    lease_seconds: float
    limit: Limit | None = None
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to claim now. `retry_seconds`: when something may become claimable by time alone (a limit's next
    permit, a delayed job); `None` = only an add can change it. `limited`: nothing can be claimed before then, not
    even a job that is added meanwhile."""  # noqa: D205, D209 - one thought, two fields

    retry_seconds: float | None = None
    limited: bool = False


class Held(Enum):
    """What became of a call that needs the lease."""

    HELD = "held"
    """It was ours and the call took effect."""
    MISSING = "missing"
    """Nobody holds it: it ran out, or the engine lost its data. Another run may start, none has."""
    TAKEN = "taken"
    """Another run holds it, or the job is gone from among the running ones: this run can change nothing any more."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Finished:
    """The answer to a finishing call; `next` is the job claimed in the same step, where one was asked for."""

    held: Held
    next: ClaimedJob | Idle | None = None


MOST_TOGETHER = 100
"""Jobs that one call moves at most: more would cost the server little less for each, and keep all others waiting meanwhile."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Jobs that were leased together, each with a token of its own; `idle` says why there are fewer than were asked for."""

    jobs: Sequence[ClaimedJob]
    idle: Idle | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class Completion:
    """How one of several jobs completes: as in `Engine.complete`."""

    job: ClaimedJob
    result: str
    mark: str | None
    keep: KeepRule


class Extender(Protocol):
    """Renews leases from a thread of its own: synchronous, with a connection that the event loop never touches."""

    def extend(self, leases: Sequence[Lease], lease_seconds: float) -> list[Held]:
        """Renew each lease for `lease_seconds` from now; one answer per lease, in order."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Engine(Noting, Scheduling, Protocol):
    """Where jobs wait, are leased and finish."""

    name: str

    @property
    def address(self) -> tuple[str, int | None] | None:
        """Host and port of the server, or the path of its socket; `None` where there is no server."""
        ...

    async def open(self) -> None:
        """Connect and verify the server (version, eviction, persistence); `UnsuitableServer` or `ServerUnavailable`."""
        ...

    async def close(self) -> None:
        """Close every connection; calls in flight fail with `ServerUnavailable`."""
        ...

    async def observe(self, queue: str) -> Observed:
        """Which incarnation of the queue's data this connection talks to, and whether the queue is paused in it."""
        ...

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult]:
        """Add jobs, each idempotent by its id; one answer per job, in order."""
        ...

    async def claim(self, queue: str, request: ClaimRequest) -> ClaimedJob | Idle:
        """Lease the next job, if there is one."""
        ...

    async def claim_group(self, queue: str, request: ClaimRequest, most: int) -> Claims:
        """Lease the next jobs in one step, up to `most` of them; their tokens are made from the request's."""
        ...

    async def wait(self, queues: Sequence[str], timeout_seconds: float) -> str | None:
        """Sleep until one of `queues` may have a claimable job, and name it; `None` after the timeout or `interrupt`."""
        ...

    async def interrupt(self) -> None:
        """Make a sleeping `wait` return `None` now."""
        ...

    async def complete(
        self, job: ClaimedJob, result: str, *, mark: str | None, keep: KeepRule, claim_next: ClaimRequest | None
    ) -> Finished:
        """End a job as completed with `result` (JSON text), write the mark in the same step, and maybe claim the next."""
        ...

    async def complete_group(
        self, queue: str, completions: Sequence[Completion], claim_next: ClaimRequest | None, most: int | None = None
    ) -> list[Finished | HomingError]:
        """Complete several jobs of a queue and claim as many next ones, as so many calls of `complete` would; an answer for each, in order.

        `most`: the next jobs that are wanted at most, if fewer; the first answers have them. An error among the answers stands for one job, and is
        what `complete` would have raised.
        """
        ...

    async def fail(
        self,
        job: ClaimedJob,
        reason: str,
        *,
        stack: str,
        mark: str | None,
        keep: KeepRule,
        claim_next: ClaimRequest | None,
    ) -> Finished:
        """End a job as failed for good; as `complete` otherwise."""
        ...

    async def retry(
        self,
        job: ClaimedJob,
        delay_seconds: float,
        *,
        spend_attempt: bool,
        reason: str,
        stack: str,
        claim_next: ClaimRequest | None,
        refund_start: bool = False,
    ) -> Finished:
        """Give a job back to run again after `delay_seconds`; `reason` and `stack` are shown with it when not empty.

        `refund_start`: this start does not count among its starts.
        """
        ...

    async def add_flow(self, jobs: Sequence[FlowJob]) -> list[AddResult]:
        """Add jobs and what they are to each other, parents before their children: all of them in one step, or none.

        Idempotent by their ids: one that exists becomes the child it is said to be, or counts as what it came to. A `Refused` that is not for
        good: its parent is not there (any more), or another one waits for it; then that job is not added.
        """
        ...

    async def wait_for_children(self, job: ClaimedJob, *, claim_next: ClaimRequest | None) -> Finished:
        """Give a job back to run again once its children have ended; at once where none is left to wait for. No start is counted."""
        ...

    async def family(self, queue: str, job_id: JobId, *, most: int | None = None) -> Dependencies:
        """Parent and children of a job, at most so many of each kind."""
        ...

    async def review_parents(self, queue: str, *, after: str | None = None, most: int = 100) -> Reviewed:
        """Look whether what jobs wait for is still there: children that are lost or ended unnoticed stop counting, a page at a time."""
        ...

    async def release_parent(self, queue: str, job_id: JobId, *, as_bereft: bool = False) -> bool:
        """Let a job that waits for children wait to be claimed instead; `False` when it does not wait for any.

        `as_bereft`: to be ended as one of whose children has failed, whoever claims it.
        """
        ...

    async def remove_children(self, queue: str, job_id: JobId) -> None:
        """Remove those descendants of a job that have not begun; those that run, or have ended, stay."""
        ...

    async def park(
        self, job: ClaimedJob, kind: ParkedKind, seconds: float, reason: str, *, claim_next: ClaimRequest | None
    ) -> Finished:
        """Give a job back to run again after `seconds`, or as soon as somebody unparks its kind; it has not started."""
        ...

    async def parked(self, queue: str) -> list[ParkedJobs]:
        """The parked jobs of the queue by kind, in order; those whose time is up are parked no more."""
        ...

    async def unpark(self, queue: str, kinds: Collection[ParkedKind]) -> int:
        """Let the parked jobs of these kinds wait to be claimed now; how many there were."""
        ...

    async def release(self, job: ClaimedJob) -> Held:
        """Give a job back untouched, to be claimed next: its attempt, its start and its turn are refunded."""
        ...

    async def throttle(self, queue: str, seconds: float, limit: Limit | None) -> None:
        """Let no worker, ours or not, start a job of the queue for `seconds` from now; a longer pause stays as it is.

        `limit`: the queue's own, `None` without one. It is made part of the queue's settings where they name none, since
        workers heed a pause only on a queue with a limit.
        """
        ...

    async def permit(self, queue: str, job_id: JobId, key: str, limit: Limit | None) -> float:
        """Seconds until a job may start under its key; 0 = now, and the start is counted.

        `limit` = starts of each key, over all workers of ours; `None`: only pauses of the key count. A job that must wait has its turn
        after that time, and stands before those that come later.
        """
        ...

    async def pause_key(self, queue: str, key: str, seconds: float) -> None:
        """Let no job with this key start for `seconds`; a longer pause stays as it is."""
        ...

    async def push_settings(self, queue: str, settings: QueueSettings) -> None:
        """Make the queue hold these settings; pushing again changes nothing."""
        ...

    def extender(self) -> Extender:
        """A renewer for use in another thread; the caller closes it."""
        ...

    async def rescue(self, queue: str, interval_seconds: float) -> list[JobId]:
        """Put running jobs whose lease is missing at two looks, `interval_seconds` apart, back to waiting; returns them."""
        ...

    async def inspect(self, queue: str, ids: Sequence[JobId]) -> list[JobTrace]:
        """What the engine knows of these ids, one answer per id, O(1) each."""
        ...

    async def listed(self, queue: str, ids: Collection[JobId]) -> set[JobId]:
        """Those of `ids` that wait, run or are delayed: in a structure from which they will be claimed or ended.

        It lists the queue, a page at a time: for few ids, seldom. A job that moves meanwhile may be missed.
        """
        ...

    async def ends(self, queue: str, ids: Sequence[JobId]) -> list[JobEnd]:
        """What finished jobs left behind, one answer per id; empty where there is nothing."""
        ...

    async def remove(self, queue: str, job_id: JobId) -> bool:
        """Remove a job that nobody is running; `False` when it is leased. An id without a job is removed already."""
        ...

    async def counts(self, queue: str) -> JobCounts:
        """Jobs of the queue by state."""
        ...

    async def clock_offset_seconds(self) -> float:
        """The engine's clock minus this machine's, measured once per connection."""
        ...
