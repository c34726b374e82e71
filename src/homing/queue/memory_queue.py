"""One queue in memory: BullMQ's state machine without its clockwork. Plain calls, no awaiting, no threads of its own."""

import heapq
from collections import deque
from collections.abc import Callable, Collection

from homing.clock import Clock
from homing.ids import JobId
from homing.queue.job import ClaimedJob, JobEnd, JobTrace, KeepRule, Lease, NewJob
from homing.queue.memory_deduplication import MemoryDeduplication
from homing.queue.memory_entry import Entry, State, count_parked
from homing.queue.memory_keys import MemoryKeys
from homing.queue.memory_limits import MemoryLimits
from homing.queue.parent import JobRef
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.queue.port import ClaimRequest, Held, Idle

Told = Callable[[JobRef, Entry], None]
"""Whoever must hear of a job that ended, was removed, or runs again after it had failed: its parent may wait for it."""


def _nobody_cares(ref: JobRef, entry: Entry) -> None:
    """For a queue of its own, without families."""
    del ref, entry


class MemoryQueue:
    """The jobs of one queue. Every call first lets time pass: delayed jobs that are due move to waiting."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._entries: dict[JobId, Entry] = {}
        self._waiting: deque[JobId] = deque()
        self._ordered: dict[State, list[tuple[tuple[float, int], JobId]]] = {State.PRIORITIZED: [], State.DELAYED: []}
        self._finished: dict[State, dict[JobId, float]] = {State.COMPLETED: {}, State.FAILED: {}}
        self._suspects: set[JobId] = set()
        self._next_look = float("-inf")
        self.limits = MemoryLimits(clock)
        self.keys = MemoryKeys(clock)
        self.same = MemoryDeduplication(clock, self._entries, self._entries.__delitem__)
        self.on_end: Told = _nobody_cares
        self.on_removal: Told = _nobody_cares
        self.on_return: Told = _nobody_cares
        self._turns = 0
        self._has_marker = False

    # ── Adding and claiming ─────────────────────────────────────────────────────────────────────────────────────────

    def add(self, job: NewJob) -> JobId | None:
        """Add a job, unless its id is taken by a job in any state; the job that stands for it, where there is one."""
        if job.id in self._entries:
            return None
        if job.deduplication is not None and (standing := self.same.admit(job, job.deduplication)):
            return standing
        self._enter(job)
        return None

    def claim(self, request: ClaimRequest) -> ClaimedJob | Idle:
        """Lease the next job: those without a priority first, then by priority, then in the order they came."""
        self._promote()
        if self.limits.paused:
            return Idle()
        blocked = self.limits.wait_seconds(request.limit)
        if blocked > 0:
            return Idle(retry_seconds=blocked, limited=True)
        if self.limits.is_full(self._active):
            return Idle()
        entry = self._next_entry()
        if entry is None:
            return Idle(self.seconds_to_due())
        self.limits.note_start(request.limit)
        entry.state = State.ACTIVE
        entry.starts += 1
        entry.token, entry.lease_ends = request.token, self._now() + request.lease_seconds
        self._has_marker |= bool(self._waiting) or any(
            map(self._peek, self._ordered)
        )  # more: the next waiter finds out
        return entry.claimed(self._name, request.token)

    def leave_marker(self) -> None:
        """Let a waiter claim: a slot of a bounded queue became free, and whoever held it takes no more."""
        self._has_marker = True

    def take_marker(self) -> bool:
        """Whether a waiter should claim; one waiter is told once, as with BullMQ's markers."""
        self._promote()
        had_marker, self._has_marker = self._has_marker, False
        return had_marker

    def seconds_to_due(self) -> float | None:
        """When the next delayed job comes due; `None` without one."""
        first = self._peek(State.DELAYED)
        return None if first is None else max(0.0, first.place[0] - self._now())

    # ── What needs the lease ────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, lease: Lease, end: JobEnd, mark: str | None, keep: KeepRule) -> Held:
        """End a job: completed when it has a result, failed otherwise."""
        entry, held = self._take(lease)
        if entry is None:
            return held
        entry.attempts_made += 1
        entry.mark = entry.mark if mark is None else mark
        entry.end = end
        entry.state = State.FAILED if end.result is None else State.COMPLETED
        if entry.state is State.COMPLETED:
            entry.family.let_go()
        entry.deferred_failure = None
        self.on_end(JobRef(self._name, lease.job_id), entry)
        if follower := self.same.end(entry.job):
            self._enter(follower)
        if keep.count == 0:
            del self._entries[lease.job_id]
            return held
        self._finished[entry.state][lease.job_id] = self._now()
        self._trim(entry.state, keep)
        return held

    def retry(self, lease: Lease, delay_seconds: float, *, spend_attempt: bool, refund_start: bool = False) -> Held:
        """Give a job back, after a delay or to the end of the line, behind what is due."""
        at_once = spend_attempt and delay_seconds <= 0
        if at_once:
            self._promote()
        entry, held = self._take(lease)
        if entry is None:
            return held
        entry.attempts_made += spend_attempt
        entry.starts -= refund_start
        if at_once:
            self._line_up(entry)
        else:
            self._delay(entry, delay_seconds)
        return held

    def release(self, lease: Lease) -> Held:
        """Give a job back to the front of the line."""
        entry, held = self._take(lease)
        if entry is not None:
            entry.starts -= 1
            self._put_first(entry)
        return held

    def park(self, lease: Lease, kind: ParkedKind, seconds: float) -> Held:
        """Give a job back after a while, or to whoever knows its kind."""
        held = self.retry(lease, seconds, spend_attempt=False, refund_start=True)
        if held is Held.HELD:
            self._entries[lease.job_id].parked = kind
        return held

    def parked(self) -> list[ParkedJobs]:
        """The parked jobs by kind, in order; those whose time is up are parked no more."""
        return count_parked(entry for entry in self._entries.values() if entry.place[0] > self._now())

    def unpark(self, kinds: Collection[ParkedKind]) -> int:
        """Let the parked jobs of these kinds wait, in the order in which they were parked."""
        of_kinds = (entry for entry in self._entries.values() if entry.parked in kinds and entry.place[0] > self._now())
        parked = sorted(of_kinds, key=lambda one: one.place)
        for entry in parked:
            self._line_up(entry)
        return len(parked)

    def extend(self, lease: Lease, lease_seconds: float) -> Held:
        """Renew a lease that is still ours."""
        entry, held = self._held(lease)
        if entry is None:
            # An ended job has no lease to lose: nothing is left for this run to change.
            return Held.TAKEN if self.trace(lease.job_id).finished else held
        entry.lease_ends = self._now() + lease_seconds
        self._suspects.discard(lease.job_id)
        return held

    def rescue(self, interval_seconds: float) -> list[JobId]:
        """Give back running jobs that had no lease at this look and none was renewed since the last."""
        if self._now() < self._next_look:
            return []
        self._next_look = self._now() + interval_seconds
        rescued = [job_id for job_id in sorted(self._suspects) if self._is_unleased(job_id)]
        for job_id in rescued:
            entry = self._entries[job_id]
            entry.stalls += 1
            entry.state, entry.token = State.WAITING, None
            self._waiting.appendleft(job_id)
            self._has_marker = True
        self._suspects = {job_id for job_id, entry in self._entries.items() if entry.state is State.ACTIVE}
        return rescued

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def trace(self, job_id: JobId) -> JobTrace:
        """What is known of an id."""
        entry = self._entries.get(job_id)
        if entry is None:
            return JobTrace(exists=False)
        return JobTrace(
            exists=True,
            name=entry.job.name,
            finished=entry.state in self._finished,
            failed_reason=entry.end.reason if entry.state is State.FAILED else None,
            mark=entry.mark,
        )

    def remove(self, job_id: JobId) -> bool:
        """Remove a job that is not leased; an unknown id is removed already."""
        entry = self._entries.get(job_id)
        if entry is None:
            return True
        if entry.token is not None and entry.lease_ends > self._now():
            return False
        if job_id in self._waiting:
            self._waiting.remove(job_id)
        self._finished[State.COMPLETED].pop(job_id, None)
        self._finished[State.FAILED].pop(job_id, None)
        self._suspects.discard(job_id)
        self.same.remove(entry.job)
        del self._entries[job_id]
        self.on_removal(JobRef(self._name, job_id), entry)
        return True

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        return self._clock.monotonic()

    def _enter(self, job: NewJob) -> None:
        self._entries[job.id] = entry = Entry(job, State.WAITING)
        if job.delay_seconds > 0:
            self._delay(entry, job.delay_seconds)
        elif job.lifo:
            self._put_first(entry)
        else:
            self._line_up(entry)

    def _line_up(self, entry: Entry) -> None:
        self._has_marker = True
        entry.parked = None
        if entry.job.priority:
            self._put_in_order(entry, State.PRIORITIZED, float(entry.job.priority))
        else:
            entry.state = State.WAITING
            self._waiting.append(entry.job.id)

    def _put_first(self, entry: Entry) -> None:
        self._has_marker = True
        if entry.job.priority:
            self._put_in_order(entry, State.PRIORITIZED, float(entry.job.priority), first=True)
        else:
            entry.state = State.WAITING
            self._waiting.appendleft(entry.job.id)

    def _delay(self, entry: Entry, seconds: float) -> None:
        self._put_in_order(entry, State.DELAYED, self._now() + seconds)

    def _put_in_order(self, entry: Entry, state: State, rank: float, *, first: bool = False) -> None:
        self._turns += 1
        entry.state, entry.place = state, (rank, 0 if first else self._turns)
        heapq.heappush(self._ordered[state], (entry.place, entry.job.id))

    def _peek(self, state: State) -> Entry | None:
        """The first job of an ordered state; places that a job has left since are dropped on the way."""
        heap = self._ordered[state]
        while heap:
            place, job_id = heap[0]
            entry = self._entries.get(job_id)
            if entry is not None and entry.state is state and entry.place == place:
                return entry
            heapq.heappop(heap)
        return None

    def _promote(self) -> None:
        while (first := self._peek(State.DELAYED)) is not None and first.place[0] <= self._now():
            heapq.heappop(self._ordered[State.DELAYED])
            self._line_up(first)

    def _next_entry(self) -> Entry | None:
        if self._waiting:
            return self._entries[self._waiting.popleft()]
        first = self._peek(State.PRIORITIZED)
        if first is not None:
            heapq.heappop(self._ordered[State.PRIORITIZED])
        return first

    def _active(self) -> int:
        return sum(entry.state is State.ACTIVE for entry in self._entries.values())

    def _held(self, lease: Lease) -> tuple[Entry | None, Held]:
        entry = self._entries.get(lease.job_id)
        if entry is None:
            return None, Held.MISSING
        if entry.token is None or entry.lease_ends <= self._now():
            return None, Held.MISSING
        if entry.token != lease.token:
            return None, Held.TAKEN
        return entry, Held.HELD

    def _take(self, lease: Lease) -> tuple[Entry | None, Held]:
        """End the lease, if it is ours."""
        entry, held = self._held(lease)
        if entry is not None:
            entry.token = None
            self._suspects.discard(lease.job_id)
        return entry, held

    def _is_unleased(self, job_id: JobId) -> bool:
        entry = self._entries.get(job_id)
        return entry is not None and entry.state is State.ACTIVE and entry.lease_ends <= self._now()

    def _trim(self, state: State, keep: KeepRule) -> None:
        """Apply the rule to all finished jobs of the state, oldest first, as BullMQ does."""
        finished = self._finished[state]
        oldest_kept = float("-inf") if keep.age_seconds is None else self._now() - keep.age_seconds
        surplus = 0 if keep.count is None else len(finished) - keep.count
        for at, (job_id, finished_at) in enumerate(list(finished.items())):
            if at < surplus or finished_at <= oldest_kept:
                del finished[job_id]
                del self._entries[job_id]
