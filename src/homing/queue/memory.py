"""The engine in memory: the same answers as Redis, for tests and for the test kit. Nothing survives the process."""

import asyncio
import threading
from collections.abc import Collection, Sequence

from homing.clock import Clock, SystemClock
from homing.ids import JobId
from homing.queue.admission import refusal
from homing.queue.job import ClaimedJob, JobEnd, KeepRule, Lease, NewJob
from homing.queue.memory_browsing import MemoryBrowsing
from homing.queue.memory_flowing import MemoryFlowing
from homing.queue.memory_queue import MemoryQueue
from homing.queue.memory_scheduling import MemoryScheduling
from homing.queue.memory_steering import MemorySteering
from homing.queue.one_by_one import OneByOne
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.queue.port import (
    Accepted,
    AddResult,
    ClaimRequest,
    Deduplicated,
    Extender,
    Finished,
    Held,
    Idle,
    Limit,
    Observed,
    QueueSettings,
    Refused,
)
from homing.queue.schedules import HeldSchedule


class MemoryEngine(OneByOne, MemoryFlowing, MemorySteering, MemoryScheduling):
    """Queues in this process, with a clock that a test can hold.

    Used from one event loop; its extenders may run in other threads. `flush` loses everything, as a flushed Redis does.
    """

    name = "memory"

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = SystemClock() if clock is None else clock
        self._queues: dict[str, MemoryBrowsing] = {}
        self._held: dict[str, dict[str, HeldSchedule]] = {}
        self._guard = threading.RLock()
        self._incarnation = 1
        self._changed = asyncio.Event()
        self._interrupted: asyncio.Event | None = None

    @property
    def address(self) -> tuple[str, int | None] | None:
        """None: the jobs are in this process."""
        return None

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to disconnect from: the jobs stay until the engine itself is gone."""

    async def observe(self, queue: str) -> Observed:
        """The identity changes with every flush, which also ends a pause."""
        with self._guard:
            return Observed(f"memory:{queue}:{self._incarnation}", self._queue(queue).limits.paused)

    async def clock_offset_seconds(self) -> float:
        """None: the engine and its caller read the same clock."""
        return 0.0

    def flush(self) -> None:
        """Lose every job and every lease of every queue; the identity changes."""
        with self._guard:
            self._queues.clear()
            self._held.clear()
            self._incarnation += 1

    def look_again(self) -> None:
        """Wake a sleeping `wait` to read the clock again: call it after moving a clock by hand."""
        self._changed.set()

    # ── Adding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult]:
        """Add jobs, each idempotent by its id; one answer per job, in order. A delay counts from now."""
        answers: list[AddResult] = []
        with self._guard:
            for job in jobs:
                error = refusal(job)
                standing = self._queue(queue).add(job) if error is None else None
                taken = Accepted.ACCEPTED if standing is None else Deduplicated(standing)
                answers.append(taken if error is None else Refused(error))
        self._changed.set()
        return answers

    # ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def claim(self, queue: str, request: ClaimRequest) -> ClaimedJob | Idle:
        """Lease the next job, if there is one."""
        with self._guard:
            return self._queue(queue).claim(request)

    async def complete(
        self, job: ClaimedJob, result: str, *, mark: str | None, keep: KeepRule, claim_next: ClaimRequest | None
    ) -> Finished:
        """End a job as completed; lease the next one in the same step."""
        return self._finish(job, JobEnd(result=result), mark, keep, claim_next)

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
        """End a job as failed for good; lease the next one in the same step."""
        return self._finish(job, JobEnd(reason=reason, stack=stack), mark, keep, claim_next)

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
        """Give a job back to run again. Without a delay it goes to the end of the line."""
        del reason, stack  # nobody can read them here
        with self._guard:
            queue = self._queue(job.lease.queue)
            held = queue.retry(
                job.lease, max(0.0, delay_seconds), spend_attempt=spend_attempt, refund_start=refund_start
            )
            self._changed.set()
            return self._and_next(queue, held, claim_next)

    async def park(
        self, job: ClaimedJob, kind: ParkedKind, seconds: float, reason: str, *, claim_next: ClaimRequest | None
    ) -> Finished:
        """Give a job back to run again after `seconds`, or as soon as somebody unparks its kind."""
        del reason  # nobody can read it here
        with self._guard:
            queue = self._queue(job.lease.queue)
            held = queue.park(job.lease, kind, seconds)
            self._changed.set()
            return self._and_next(queue, held, claim_next)

    async def parked(self, queue: str) -> list[ParkedJobs]:
        """The parked jobs of a queue by kind, in order."""
        with self._guard:
            return self._queue(queue).parked()

    async def unpark(self, queue: str, kinds: Collection[ParkedKind]) -> int:
        """Let the parked jobs of these kinds wait to be claimed now; how many there were."""
        with self._guard:
            unparked = self._queue(queue).unpark(kinds)
        self._changed.set()
        return unparked

    async def release(self, job: ClaimedJob) -> Held:
        """Give a job back untouched, to be claimed next."""
        with self._guard:
            held = self._queue(job.lease.queue).release(job.lease)
        self._changed.set()
        return held

    async def throttle(self, queue: str, seconds: float, limit: Limit | None) -> None:
        """Let no worker start a job of the queue for `seconds` from now."""
        with self._guard:
            self._queue(queue).limits.pause(seconds, limit)

    async def permit(self, queue: str, job_id: JobId, key: str, limit: Limit | None) -> float:
        """Seconds until the job may start under its key; 0 = now, and the start is counted."""
        with self._guard:
            return self._queue(queue).keys.wait_seconds(job_id, key, limit)

    async def pause_key(self, queue: str, key: str, seconds: float) -> None:
        """Let no job with this key start for `seconds`."""
        with self._guard:
            self._queue(queue).keys.pause(key, seconds)

    async def push_settings(self, queue: str, settings: QueueSettings) -> None:
        """Make the queue hold these settings, until it is flushed."""
        with self._guard:
            self._queue(queue).limits.push(settings)
            self._queue(queue).leave_marker()
        self._changed.set()

    def extender(self) -> Extender:
        """A renewer for use in another thread."""
        return _MemoryExtender(self)

    def extend(self, lease: Lease, lease_seconds: float) -> Held:
        """Renew one lease; may be called from any thread."""
        with self._guard:
            return self._queue(lease.queue).extend(lease, lease_seconds)

    async def rescue(self, queue: str, interval_seconds: float) -> list[JobId]:
        """Put running jobs whose lease is missing at two looks, `interval_seconds` apart, back to waiting."""
        with self._guard:
            rescued = self._queue(queue).rescue(interval_seconds)
        self._changed.set()
        return rescued

    # ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def wait(self, queues: Sequence[str], timeout_seconds: float) -> str | None:
        """Sleep until one of `queues` may have a claimable job, and name it; one wait at a time."""
        if self._interrupted is not None:
            raise RuntimeError("this engine is already waiting: one wait at a time, over all queues")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        self._interrupted = asyncio.Event()
        try:
            while not self._interrupted.is_set():
                self._changed.clear()
                if (found := self._marked(queues)) is not None:
                    return found
                left = deadline - loop.time()
                if left <= 0:
                    return None
                await self._sleep(min(left, self._seconds_to_due(queues)))
        finally:
            self._interrupted = None
        return None

    async def interrupt(self) -> None:
        """Make a sleeping `wait` return `None` now."""
        if self._interrupted is not None:
            self._interrupted.set()
            self._changed.set()

    async def _sleep(self, seconds: float) -> None:
        waiter = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            waiter.cancel()

    def _marked(self, queues: Sequence[str]) -> str | None:
        with self._guard:
            return next((name for name in queues if self._queue(name).take_marker()), None)

    def _seconds_to_due(self, queues: Sequence[str]) -> float:
        with self._guard:
            due = [self._queue(name).seconds_to_due() for name in queues]
        return min((seconds for seconds in due if seconds is not None), default=float("inf"))

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def remove(self, queue: str, job_id: JobId) -> bool:
        """Remove a job that nobody is running; `False` when it is leased."""
        with self._guard:
            return self._queue(queue).remove(job_id)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _queue(self, name: str) -> MemoryBrowsing:
        if name not in self._queues:
            self._queues[name] = queue = MemoryBrowsing(name, self._clock)
            queue.on_end, queue.on_removal, queue.on_return = self._count_end, self._count_removal, self._count_return
        return self._queues[name]

    def _forget(self, name: str) -> None:
        """Every identity changes, since it is one number: a look too many for the other queues."""
        del self._queues[name]
        self._held.pop(name, None)
        self._incarnation += 1

    def _finish(
        self, job: ClaimedJob, end: JobEnd, mark: str | None, keep: KeepRule, claim_next: ClaimRequest | None
    ) -> Finished:
        with self._guard:
            queue = self._queue(job.lease.queue)
            return self._and_next(queue, queue.finish(job.lease, end, mark, keep), claim_next)

    def _and_next(self, queue: MemoryQueue, held: Held, claim_next: ClaimRequest | None) -> Finished:
        if held is not Held.HELD:
            return Finished(held)
        if claim_next is None:
            queue.leave_marker()
            self._changed.set()
            return Finished(held)
        return Finished(held, queue.claim(claim_next))


class _MemoryExtender:
    """Renews leases from any thread."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine

    def extend(self, leases: Sequence[Lease], lease_seconds: float) -> list[Held]:
        """Renew each lease; one answer per lease, in order."""
        return [self._engine.extend(lease, lease_seconds) for lease in leases]

    def close(self) -> None:
        """Nothing to close."""
