"""Flows in memory: what happens in one queue is counted in another."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import assert_never

from homing.ids import JobId
from homing.queue.browse import read_cursor, write_cursor
from homing.queue.flow_admission import refused_flow
from homing.queue.flows import Dependencies, FlowJob, Reviewed, verdict_on
from homing.queue.job import ClaimedJob
from homing.queue.memory_browsing import MemoryBrowsing
from homing.queue.memory_entry import Entry, State
from homing.queue.parent import JobRef, Parent
from homing.queue.port import Accepted, AddResult, ClaimRequest, Finished, Held, Refused


class MemoryFlowing(ABC):
    """The part of the engine in memory that knows families."""

    _guard: threading.RLock
    _changed: asyncio.Event

    @abstractmethod
    def _queue(self, name: str) -> MemoryBrowsing:
        """The queue of this name."""

    @abstractmethod
    def _and_next(self, queue: MemoryBrowsing, held: Held, claim_next: ClaimRequest | None) -> Finished:
        """The answer to a finish, with the next job where one is asked for."""

    async def add_flow(self, jobs: Sequence[FlowJob]) -> list[AddResult]:
        """Add jobs and what they are to each other, parents before their children: all of them, or none."""
        with self._guard:
            refused = refused_flow(jobs)
            if refused is None:
                refused = self._add_family(jobs)
        self._changed.set()
        return refused

    async def wait_for_children(self, job: ClaimedJob, *, claim_next: ClaimRequest | None) -> Finished:
        """Give a job back to run again once its children have ended."""
        with self._guard:
            queue = self._queue(job.lease.queue)
            held = queue.wait_for_children(job.lease)
            self._changed.set()
            return self._and_next(queue, held, claim_next)

    async def family(self, queue: str, job_id: JobId, *, most: int | None = None) -> Dependencies:
        """Parent and children of a job."""
        with self._guard:
            entry = self._queue(queue).entry(job_id)
            return Dependencies() if entry is None else entry.family.seen(most)

    async def review_parents(self, queue: str, *, after: str | None = None, most: int = 100) -> Reviewed:
        """Look whether what jobs wait for is still there."""
        with self._guard:
            ids = self._queue(queue).waiting_for_children()
            rank, last = (-1, None) if after is None else read_cursor(after)
            start = (ids.index(last) if last in ids else rank if after else -1) + (last in ids or after is None)
            page = ids[start : start + most]
            goes_on = {job_id: self._review(JobRef(queue, job_id)) for job_id in page}
        self._changed.set()
        return Reviewed(
            after=write_cursor(start + most - 1, page[-1]) if len(page) == most else None,
            released=tuple(job_id for job_id, goes in goes_on.items() if goes),
            waiting={job_id: self._queue(queue).waited_seconds(job_id) for job_id, goes in goes_on.items() if not goes},
        )

    async def release_parent(self, queue: str, job_id: JobId, *, as_bereft: bool = False) -> bool:
        """Let a job that waits for children wait to be claimed instead."""
        with self._guard:
            entry, released = self._queue(queue).entry(job_id), self._queue(queue).go_on(job_id)
            if entry is not None and released and as_bereft:
                child = next(iter(entry.family.pending), JobRef(queue, JobId("that nobody knows")))
                entry.deferred_failure = verdict_on(f"{child.queue}:{child.id}")
        self._changed.set()
        return released

    async def remove_children(self, queue: str, job_id: JobId) -> None:
        """Remove those descendants of a job that have not begun."""
        with self._guard:
            entry = self._queue(queue).entry(job_id)
            for child in list(entry.family.pending) if entry is not None else ():
                await self.remove_children(child.queue, child.id)
                self._queue(child.queue).remove(child.id)

    # ── Inside: ends are counted in the parent ──────────────────────────────────────────────────────────────────────

    def _entry(self, ref: JobRef) -> Entry | None:
        return self._queue(ref.queue).entry(ref.id)

    def _count_end(self, child: JobRef, entry: Entry) -> None:
        """A child has ended: its parent, if it waits for it, counts what it came to."""
        parent = entry.family.parent
        above = None if parent is None else self._entry(parent.job)
        if parent is None or above is None or child not in above.family.pending:
            return
        del above.family.pending[child]
        if entry.end.result is not None:
            above.family.completed[child] = entry.end.result
            self._go_on_if_done(parent.job, above)
        else:
            self._count_death(parent, above, child, entry.end.reason)

    def _count_death(self, parent: Parent, above: Entry, child: JobRef, reason: str) -> None:
        match parent.on_failure:
            case "fail":
                above.family.fatal[child] = None
                above.deferred_failure = verdict_on(f"{child.queue}:{child.id}")
                self._queue(parent.job.queue).go_on(parent.job.id)
            case "continue":
                above.family.forgiven[child] = reason
                self._queue(parent.job.queue).go_on(parent.job.id)
            case "ignore":
                above.family.forgiven[child] = reason
                self._go_on_if_done(parent.job, above)
            case "remove":
                self._go_on_if_done(parent.job, above)
            case other:
                assert_never(other)

    def _count_removal(self, child: JobRef, entry: Entry) -> None:
        """A child was removed: its end is not waited for any more."""
        parent = entry.family.parent
        above = None if parent is None else self._entry(parent.job)
        if parent is not None and above is not None and above.family.pending.pop(child, child) is None:
            self._go_on_if_done(parent.job, above)

    def _count_return(self, child: JobRef, entry: Entry) -> None:
        """A child that failed runs again."""
        parent = entry.family.parent
        above = None if parent is None else self._entry(parent.job)
        if above is not None:
            above.family.takes_back(child)

    def _go_on_if_done(self, parent: JobRef, above: Entry) -> bool:
        return not above.family.pending and self._queue(parent.queue).go_on(parent.id)

    # ── Inside: adding ──────────────────────────────────────────────────────────────────────────────────────────────

    def _add_family(self, jobs: Sequence[FlowJob]) -> list[AddResult]:
        answers: dict[JobRef, AddResult] = {}
        existing = [one for one in jobs if self._entry(one.ref) is not None]
        for one in jobs:
            if one not in existing:
                answers[one.ref] = self._add_node(one)
        for one in existing:
            answers[one.ref] = self._attach(one.ref, one.job.parent)
        for parent in dict.fromkeys(one.job.parent.job for one in jobs if one.job.parent is not None):
            above = self._entry(parent)
            if above is not None:
                self._go_on_if_done(parent, above)
        return [answers[one.ref] for one in jobs]

    def _add_node(self, one: FlowJob) -> AddResult:
        parent = one.job.parent
        above = None if parent is None else self._entry(parent.job)
        if parent is not None and above is None:
            return Refused(f"the job {one.job.id} was not added: its parent is not there", for_good=False)
        entry = self._queue(one.queue).add_member(one.job, waits=one.waits)
        entry.family.parent = parent
        if above is not None:
            above.family.pending[one.ref] = None
        return Accepted.ACCEPTED

    def _attach(self, child: JobRef, parent: Parent | None) -> AddResult:
        entry = self._entry(child)
        above = None if parent is None else self._entry(parent.job)
        if parent is None or entry is None:
            return Accepted.ACCEPTED
        if above is None:
            return Refused(f"the parent of {child.id} is not there", for_good=False)
        former = entry.family.parent
        if former is not None and former.job != parent.job and self._waits(former.job):
            return Refused(f"another parent waits for the job {child.id}", for_good=False)
        entry.family.parent = parent
        above.family.pending[child] = None
        if entry.state in (State.COMPLETED, State.FAILED):
            self._count_end(child, entry)
        return Accepted.ACCEPTED

    def _waits(self, ref: JobRef) -> bool:
        entry = self._entry(ref)
        return entry is not None and entry.state in (State.WAITING_CHILDREN, State.ACTIVE)

    def _review(self, parent: JobRef) -> bool:
        above = self._entry(parent)
        if above is None:
            return False
        for child in list(above.family.pending):
            entry = self._entry(child)
            if entry is None:
                del above.family.pending[child]
            elif entry.state in (State.COMPLETED, State.FAILED):
                self._count_end(child, entry)
        return self._go_on_if_done(parent, above) or above.state is not State.WAITING_CHILDREN
