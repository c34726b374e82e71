"""What people see of a queue's jobs and do to them: lists in pages, one job in full, and the deeds of queue tools.

It is apart from what workers and relays need: nothing that runs jobs depends on it, and nothing here needs a lease.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Protocol

from homing.ids import JobId
from homing.queue.port import Engine, Limit

MOST_LISTED = 1_000
"""Jobs on one page at the most."""


LAST_LINES = 20
"""Lines of a job's log that are shown with it."""


class JobState(Enum):
    """Where a job is, in BullMQ's words."""

    ACTIVE = "active"
    WAITING = "waiting"
    PRIORITIZED = "prioritized"
    DELAYED = "delayed"
    WAITING_CHILDREN = "waiting-children"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def finished(self) -> bool:
        """Whether nobody will run it any more, unless a person says so."""
        return self in (JobState.FAILED, JobState.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job as a list shows it. Anybody may have written it: times that make no sense are `None`.

    `name` is `None` for a ghost, an id whose data is lost. `state` is `None` for a job in no list, which nobody will ever claim. `reason`
    is the last failure's, also of a job that waits for another attempt.
    """

    id: JobId
    name: str | None
    state: JobState | None
    added_at: datetime | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts_made: int = 0
    priority: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob(ListedJob):
    """One job in full: `fields` is its hash as it is stored, the rest what is read from it and from beside it.

    `ahead`: how many jobs are claimed before it, where that can be told. `lease_seconds`: how long its lease still lasts, `None` when
    nobody holds one. `logs`: its last lines, of `log_lines` altogether.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 1
    starts: int = 0
    stalls: int = 0
    ahead: int | None = None
    worker: str = ""
    lease_seconds: float | None = None
    mark: str | None = None
    stacks: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    log_lines: int = 0


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs of a state, the first of them at this place; `after` continues behind them, `None` = there are no more."""

    jobs: tuple[ListedJob, ...]
    after: str | None = None
    first: int = 0

    def behind(self, at: int) -> str | None:
        """Where to go on behind one of its jobs, by its number on the page; `None` behind the last of all."""
        return self.after if at == len(self.jobs) - 1 else write_cursor(self.first + at, self.jobs[at].id)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTerms:
    """What holds a queue back now. `throttled_seconds`: until its limit lets the next job start, 0 = now."""

    paused: bool = False
    concurrency: int | None = None
    limit: Limit | None = None
    throttled_seconds: float = 0.0


class Obliterated(Enum):
    """What became of a queue that should vanish."""

    GONE = "gone"
    RUNNING = "jobs of it run"
    NOT_PAUSED = "it is not paused"


class Browsing(Protocol):
    """What an engine lets people see and do. A deed that finds its job elsewhere than expected changes nothing and says so."""

    async def browse(
        self, queue: str, state: JobState, *, after: str | None = None, most: int = 100, newest_first: bool = False
    ) -> JobPage:
        """A page of the jobs of a state: the next to run or to leave first, or the newest first. It costs what the page costs.

        `after`: where an earlier page ended; a `ValueError` for anything else. Jobs that move meanwhile may be seen twice.
        """
        ...

    async def show(self, queue: str, job_id: JobId) -> ShownJob | None:
        """One job in full; `None` for an id without one."""
        ...

    async def glance(self, queue: str, ids: Sequence[JobId]) -> list[ListedJob]:
        """These jobs as a list shows them, whatever their states; without a name where there is none. No line is walked.

        One that is in no list that can be asked cheaply counts as waiting.
        """
        ...

    async def terms(self, queue: str) -> QueueTerms:
        """What holds the queue back now."""
        ...

    async def standing(self, queue: str, same_id: str) -> JobId | None:
        """The job that counts now for a de-duplication id: others that ask for it give way."""
        ...

    async def lift(self, queue: str, same_id: str) -> bool:
        """Let no job count for a de-duplication id, so that the next one is added; whether one did."""
        ...

    async def promote(self, queue: str, job_id: JobId) -> bool:
        """Let a delayed job wait to be claimed now; `False` when it is not delayed."""
        ...

    async def rerun(self, queue: str, job_id: JobId) -> bool:
        """Let a failed job wait to be claimed again, with all its attempts; `False` when it has not failed.

        Its mark stays, so that the ledger adopts the delivery whose letter the mark names.
        """
        ...

    async def clean(self, queue: str, state: JobState, older_than_seconds: float, most: int) -> int:
        """Remove jobs that finished longer ago than that, the oldest first, at most so many; how many there were.

        A `ValueError` for a state that is not finished.
        """
        ...

    async def drain(self, queue: str, *, delayed: bool) -> int:
        """Remove the jobs that wait, with or without delayed ones, and none that runs; how many there were.

        It goes on in small steps until it finds none: what is added meanwhile may be among them.
        """
        ...

    async def obliterate(self, queue: str, *, force: bool) -> Obliterated:
        """Remove a paused queue with all its jobs, finished ones, settings and the mark of its data; in small steps, so that it can
        be said again after an error. `force`: also while jobs run, which then can change nothing in the queue any more.
        """  # noqa: D205 - one thought
        ...


class SteeredEngine(Engine, Browsing, Protocol):
    """An engine for work and for people."""


def moment(milliseconds: float | None) -> datetime | None:
    """A time as jobs carry it; `None` for none, and for what no calendar has."""
    try:
        return None if not milliseconds else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def write_cursor(rank: int, job_id: str) -> str:
    """Where a page ended: behind this job, which stood at this place."""
    return f"{rank}:{job_id}"


def read_cursor(after: str) -> tuple[int, JobId]:
    """Place and id of the last job of an earlier page; a `ValueError` names what is no such thing."""
    rank, colon, job_id = after.partition(":")
    if not (colon and job_id and rank.isascii() and rank.isdecimal() and len(rank) < 16):
        raise ValueError(f"{after!r} is not where a page ended: take it from the page before")
    return int(rank), JobId(job_id)


def start_after(cursor: tuple[int, JobId] | None, rank_now: int | None, *, newest_first: bool) -> int:
    """The place where the next page begins. Pure.

    A job that left since was taken from the front, with all before it; seen from the other end, what was behind it is where it was.
    """
    if cursor is None:
        return 0
    if rank_now is not None:
        return rank_now + 1
    return cursor[0] if newest_first else 0
