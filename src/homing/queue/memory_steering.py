"""The part of the engine in memory that looks at jobs and that people use: nothing in it needs a lease."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from homing.ids import JobId, LeaseToken
from homing.queue.browse import JobPage, JobState, ListedJob, Obliterated, QueueTerms, ShownJob
from homing.queue.job import JobCounts, JobEnd, JobTrace
from homing.queue.memory_browsing import MemoryBrowsing
from homing.queue.notes import LogPage


class MemorySteering(ABC):
    """Shows jobs, and carries out what people decide."""

    _guard: threading.RLock
    _changed: asyncio.Event

    @abstractmethod
    def _queue(self, name: str) -> MemoryBrowsing:
        """The queue of this name."""

    @abstractmethod
    def _forget(self, name: str) -> None:
        """Lose the queue, and let its identity be another."""

    async def inspect(self, queue: str, ids: Sequence[JobId]) -> list[JobTrace]:
        """What the engine knows of these ids, one answer per id."""
        with self._guard:
            return [self._queue(queue).trace(job_id) for job_id in ids]

    async def listed(self, queue: str, ids: Collection[JobId]) -> set[JobId]:
        """Those of `ids` that wait, run or are delayed."""
        with self._guard:
            return {job_id for job_id in ids if self._queue(queue).is_listed(job_id)}

    async def ends(self, queue: str, ids: Sequence[JobId]) -> list[JobEnd]:
        """What finished jobs left behind, one answer per id."""
        with self._guard:
            return [self._queue(queue).end(job_id) for job_id in ids]

    async def counts(self, queue: str) -> JobCounts:
        """Jobs of the queue by state."""
        with self._guard:
            return self._queue(queue).counts()

    async def browse(
        self, queue: str, state: JobState, *, after: str | None = None, most: int = 100, newest_first: bool = False
    ) -> JobPage:
        """A page of the jobs of a state."""
        with self._guard:
            return self._queue(queue).browse(state, after, most, newest_first=newest_first)

    async def show(self, queue: str, job_id: JobId) -> ShownJob | None:
        """One job in full; `None` for an id without one."""
        with self._guard:
            return self._queue(queue).show(job_id)

    async def glance(self, queue: str, ids: Sequence[JobId]) -> list[ListedJob]:
        """These jobs as a list shows them."""
        with self._guard:
            return [self._queue(queue).show(job_id) or ListedJob(id=job_id, name=None, state=None) for job_id in ids]

    async def terms(self, queue: str) -> QueueTerms:
        """What holds the queue back now."""
        with self._guard:
            return self._queue(queue).terms()

    async def note_progress(
        self, queue: str, job_id: JobId, progress: str, *, holder: LeaseToken | None = None
    ) -> bool:
        """Let a job show its progress; `False` when there is no such job, or another run than `holder` has it."""
        with self._guard:
            return self._queue(queue).note_progress(job_id, progress, holder)

    async def note_lines(
        self, queue: str, job_id: JobId, lines: Sequence[str], *, holder: LeaseToken | None = None
    ) -> bool:
        """Add lines to a job's log; `False` as above."""
        with self._guard:
            return self._queue(queue).note_lines(job_id, lines, holder)

    async def read_lines(self, queue: str, job_id: JobId, *, first: int = 0, most: int = 100) -> LogPage:
        """Lines of a job's log, from the line with this number."""
        with self._guard:
            return self._queue(queue).read_lines(job_id, first, most)

    async def standing(self, queue: str, same_id: str) -> JobId | None:
        """The job that counts now for a de-duplication id."""
        with self._guard:
            return self._queue(queue).same.standing(same_id)

    async def lift(self, queue: str, same_id: str) -> bool:
        """Let no job count for a de-duplication id; whether one did."""
        with self._guard:
            return self._queue(queue).same.lift(same_id)

    async def promote(self, queue: str, job_id: JobId) -> bool:
        """Let a delayed job wait to be claimed now; `False` when it is not delayed."""
        with self._guard:
            promoted = self._queue(queue).promote(job_id)
        self._changed.set()
        return promoted

    async def rerun(self, queue: str, job_id: JobId) -> bool:
        """Let a failed job wait to be claimed again; `False` when it has not failed."""
        with self._guard:
            waits = self._queue(queue).rerun(job_id)
        self._changed.set()
        return waits

    async def clean(self, queue: str, state: JobState, older_than_seconds: float, most: int) -> int:
        """Remove jobs that finished longer ago than that, at most so many."""
        with self._guard:
            return self._queue(queue).clean(state, older_than_seconds, most)

    async def drain(self, queue: str, *, delayed: bool) -> int:
        """Remove the jobs that wait, and none that runs."""
        with self._guard:
            return self._queue(queue).drain(delayed=delayed)

    async def obliterate(self, queue: str, *, force: bool) -> Obliterated:
        """Remove a paused queue with everything in it."""
        with self._guard:
            answer = self._queue(queue).obliterate(force=force)
            if answer is Obliterated.GONE:
                self._forget(queue)
            return answer
