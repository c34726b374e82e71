"""Slots and claims: every queue of a worker has a lane; one blocking wait wakes those that have a free slot."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from homing.clock import Clock
from homing.errors import ServerUnavailable
from homing.ids import new_token
from homing.queue.job import ClaimedJob
from homing.queue.port import MOST_TOGETHER, ClaimRequest, Engine, Finished, Idle, Limit
from homing.service import Progress
from homing.worker.slot import Owner

log = logging.getLogger("homing.worker")

Begin = Callable[[Sequence[ClaimedJob], Owner], None]
"""How jobs that were claimed are begun; the lane hears of every end."""

POLL_SECONDS = 5.0
"""The net under the wait: how often an idle lane claims although nothing woke it, a limited one included: its limit may be gone."""

FAILED_LANE_SECONDS = 1.0
"""How long a lane rests whose queue could not be claimed from, while others could."""

STREAK_SECONDS = 0.05
"""A claim this soon after one that found a job asks for more jobs at once than that one did."""


class Lane:
    """One queue's slots in this worker.

    `running`: its slots that are taken; `emptied` is set while there are none. `resume_at` (monotonic): when it may claim by time alone. `watched_until`: how long the wait for its jobs that is going on will
    last; never, when there is none.
    """

    def __init__(
        self,
        queue: str,
        *,
        concurrency: int,
        limit: Limit | None,
        engine: Engine,
        begin: Begin,
        lease_seconds: float,
        worker: str,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.concurrency = concurrency
        self._limit = limit
        self._engine = engine
        self._begin = begin
        self._lease_seconds = lease_seconds
        self._worker = worker
        self._clock = clock
        self._on_change = on_change
        self.running = 0
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.open = True
        self.resume_at: float = 0.0
        self.watched_until: float = float("inf")
        self._limited = False
        self._wanted = 1
        self._streak_until = 0.0

    @property
    def free(self) -> int:
        """Slots without a job."""
        return self.concurrency - self.running

    def has_room(self) -> bool:
        """Whether a slot is free, and may be filled."""
        return self.open and self.free > 0

    def may_claim(self) -> bool:
        """Whether a claim makes sense now."""
        return self.has_room() and self.resume_at <= self._clock.monotonic()

    def listening(self) -> bool:
        """Whether a job that appears now could be claimed now: not before the next permit of a limited queue."""
        is_limited = self._limited and self.resume_at > self._clock.monotonic()
        return self.has_room() and not is_limited

    def wake(self) -> None:
        """Claim at the next fill, whatever was known before."""
        self.resume_at = 0.0

    async def fill(self) -> None:
        """Claim until the slots are full or nothing is left; claims double as long as each of them finds a job.

        The first one that finds a job leaves it to the marker to say whether there are more: a lonely job costs one claim.
        """
        while self.may_claim():
            first = self._clock.monotonic() > self._streak_until
            wanted = 1 if first else min(self._wanted, self.free, MOST_TOGETHER)
            claims = await self._engine.claim_group(self.queue, self._request(), wanted)
            self._continue(wanted)
            if first and claims.jobs:
                self.resume_at = self._clock.monotonic() + POLL_SECONDS
            self._start(claims.jobs)
            if claims.idle is not None:
                self._rest(claims.idle)

    def next_request(self) -> ClaimRequest | None:
        """What to ask for in place of a job that ends now; nothing once the lane is closed."""
        return self._request() if self.open else None

    def left(self, answers: Sequence[Finished | None]) -> None:
        """Begin the jobs that the ends of others have claimed; what is left of the slots is free, and may be worth a look."""
        following = [None if answer is None else answer.next for answer in answers]
        jobs = [job for job in following if isinstance(job, ClaimedJob)]
        had_room = self.has_room()
        self.running -= len(answers)
        self._start(jobs)
        if len(jobs) == len(answers):
            return
        idle = [each for each in following if isinstance(each, Idle)]
        if len(jobs) + len(idle) < len(answers):
            self.wake()
        elif self.resume_at > 0.0:  # else woken meanwhile: what it heard may be older
            self._rest(idle[-1])
        is_watched = had_room and self.resume_at >= self.watched_until
        if not is_watched:
            self._on_change()

    def _start(self, jobs: Sequence[ClaimedJob]) -> None:
        self.running += len(jobs)
        if jobs:
            self.emptied.clear()
            self._begin(jobs, self)
        elif self.running == 0:
            self.emptied.set()

    def _continue(self, wanted: int) -> None:
        self._wanted = 2 * wanted
        self._streak_until = self._clock.monotonic() + STREAK_SECONDS

    def _rest(self, idle: Idle) -> None:
        self._streak_until = 0.0
        wait = POLL_SECONDS if idle.retry_seconds is None else min(idle.retry_seconds, POLL_SECONDS)
        self.resume_at = self._clock.monotonic() + wait
        self._limited = idle.limited

    def _request(self) -> ClaimRequest:
        return ClaimRequest(new_token(), self._lease_seconds, self._limit, self._worker)


class Claimer:
    """Keeps the lanes filled: one `tick` fills every lane that may claim, then sleeps until one may again."""

    def __init__(self, lanes: Sequence[Lane], engine: Engine, clock: Clock) -> None:
        self._lanes = lanes
        self._engine = engine
        self._clock = clock
        self._changed = asyncio.Event()
        self._waiting = False
        self._stopped = False
        self._failing: set[str] = set()

    def notice(self) -> None:
        """A slot became free, or the worker stops: look at the lanes again."""
        self._changed.set()
        if self._waiting:
            self._waiting = False
            self._interruption = asyncio.ensure_future(self._engine.interrupt())

    def wake(self, queue: str) -> None:
        """Claim from a queue now: it has jobs, as somebody here knows without having been woken."""
        for lane in self._lanes:
            if lane.queue == queue:
                lane.wake()
        self.notice()

    async def tick(self) -> Progress:
        """Fill, then wait; `AGAIN` always, since the waiting is in here."""
        self._changed.clear()
        await self._fill()
        if not self._stopped:
            await self._wait()
        return Progress.AGAIN

    def stop(self) -> None:
        """Claim nothing from now on."""
        self._stopped = True
        for lane in self._lanes:
            lane.open = False
        self.notice()

    def pause(self) -> None:
        """Claim nothing until `resume`; runs go on, and end without claiming the next job."""
        for lane in self._lanes:
            lane.open = False
        self.notice()

    def resume(self) -> None:
        """Claim again, unless the worker has stopped meanwhile."""
        if self._stopped:
            return
        for lane in self._lanes:
            lane.open = True
            lane.wake()
        self.notice()

    async def _fill(self) -> None:
        """Fill every lane; one that fails tries again later, and only the failure of all of them is raised."""
        tried = {lane.queue for lane in self._lanes if lane.may_claim()}
        results = await asyncio.gather(*(lane.fill() for lane in self._lanes), return_exceptions=True)
        failed = [(lane, result) for lane, result in zip(self._lanes, results, strict=True) if result is not None]
        if failed and len(failed) == len(self._lanes):
            raise failed[0][1]
        for lane, error in failed:
            if lane.queue not in self._failing:
                log.warning("queue %s: nothing can be claimed, trying until it can: %s", lane.queue, error)
            lane.resume_at = self._clock.monotonic() + FAILED_LANE_SECONDS
        self._failing = (self._failing - tried) | {lane.queue for lane, _ in failed}

    async def _wait_for_a_change(self, seconds: float) -> None:
        """All slots are taken, or the lanes are paused or limited: the claim loop turns all the same, so that it can be seen to live."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    async def _wait(self) -> None:
        roomy = [lane for lane in self._lanes if lane.has_room()]
        listening = [lane for lane in roomy if lane.listening()]
        resume_at = min((lane.resume_at for lane in roomy), default=float("inf"))
        timeout = min(max(0.001, resume_at - self._clock.monotonic()), POLL_SECONDS)
        if not listening:
            await self._wait_for_a_change(timeout)
            return
        if self._changed.is_set():
            return
        for lane in listening:
            lane.watched_until = self._clock.monotonic() + timeout
        self._waiting = True
        try:
            woken = await self._engine.wait([lane.queue for lane in listening], timeout)
        except ServerUnavailable:
            for lane in listening:
                lane.wake()
            raise
        finally:
            self._waiting = False
            for lane in listening:
                lane.watched_until = float("inf")
        for lane in listening:
            if lane.queue == woken:
                lane.wake()
