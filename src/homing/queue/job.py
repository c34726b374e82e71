"""The engine's view of a job: what is handed in, what comes out with a lease, and what a finished one left behind."""

from dataclasses import dataclass, field

from homing.backoff import Backoff
from homing.ids import JobId, LeaseToken
from homing.queue.parent import Parent
from homing.records import quickly_made


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule:
    """How long a finished job is kept for people to look at.

    `age_seconds` and `count` both `None` = for ever; `count=0` = removed at once. Applied by the engine when another job of the
    same queue finishes.
    """

    age_seconds: float | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.age_seconds is not None and self.age_seconds < 0:
            raise ValueError(f"a keep age must be ≥ 0 seconds, not {self.age_seconds!r}")
        if self.count is not None and self.count < 0:
            raise ValueError(f"a keep count must be ≥ 0, not {self.count!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """Jobs that are the same in this sense: while one of them counts, adding another adds none and names the one that stands.

    A job counts until it has ended; with `ttl_seconds`, for so long after it was added, whatever became of it. `extend`: each further add
    lets the time begin anew. `replace`: a job that is still delayed makes way for the new one. `keep_last_if_active`: the last one that is
    added while the first runs is kept, and added when that ends.
    """

    id: str
    ttl_seconds: float | None = None
    extend: bool = False
    replace: bool = False
    keep_last_if_active: bool = False


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be added. `data` is JSON text; `timestamp_ms` is when its cause happened, by the engine's clock.

    `lifo`: it is claimed before all that wait already. `traceparent` is what created it, for whoever runs it to join.
    `parent`: the job that waits for this one.
    """

    id: JobId
    name: str
    data: str
    timestamp_ms: int
    attempts: int = 1
    backoff: Backoff | None = None
    keep_completed: KeepRule = field(default_factory=KeepRule)
    keep_failed: KeepRule = field(default_factory=KeepRule)
    delay_seconds: float = 0.0
    priority: int = 0
    lifo: bool = False
    deduplication: Deduplication | None = None
    traceparent: str | None = None
    parent: Parent | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run and to finish one job: worth something only while the engine holds the same token for it."""

    queue: str
    job_id: JobId
    token: LeaseToken

    def __hash__(self) -> int:
        """By the token, which no two leases share: a lease is looked up four times for each job."""
        return hash(self.token)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedJob:
    """A job that was just leased to us.

    `data` is JSON text as it was handed in, by anybody. `starts` counts claims including this one; `attempts_made` the runs that
    ended and were counted; `stalls` the claims whose lease ran out. `mark` is what an earlier finish of ours left
    (`done`, `dead:<letter id>`); `deferred_failure` is the engine's own verdict, which the ledger may overrule.
    `traceparent` is a valid one that its producer left beside the data.
    """

    lease: Lease
    name: str
    data: str
    timestamp_ms: int
    attempts: int
    starts: int
    attempts_made: int
    stalls: int = 0
    mark: str | None = None
    deferred_failure: str | None = None
    traceparent: str | None = None

    @property
    def attempt(self) -> int:
        """The number of this run, from 1."""
        return self.attempts_made + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTrace:
    """What the engine knows of a job id, read in constant time and without a lease.

    `name` is `None` for an id without a job, and for a ghost (a hash that a claim of a lost job left behind): `exists` tells
    the two apart. `finished` is set once the job is completed or failed; `failed_reason` tells which.
    """

    exists: bool
    name: str | None = None
    finished: bool = False
    failed_reason: str | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """What a finished job left behind, as whoever ran it wrote it: `result` is what should be JSON text, `reason` and `stack` the last error's."""

    result: str | None = None
    reason: str = ""
    stack: str = ""
    attempts_made: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Jobs of one queue by state."""

    waiting: int = 0
    active: int = 0
    delayed: int = 0
    prioritized: int = 0
    completed: int = 0
    failed: int = 0
    waiting_children: int = 0
