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
from homing.worker.slot import Owner, Wanted

log = logging.getLogger("homing.worker")

Begin = Callable[[Sequence[ClaimedJob], Owner], None]
"""How jobs that were claimed are begun; the lane hears of every end."""

POLL_SECONDS = 5.0
"""The net under the wait: how often an idle lane claims although nothing woke it, a limited one included: its limit may be gone."""

FAILED_LANE_SECONDS = 1.0
"""How long a lane rests whose queue could not be claimed from, while others could."""

STREAK_SECONDS = 0.05
"""A claim this soon after one that found a job asks for more jobs at once than that one did."""


MOST_ENDING = 4 * MOST_TOGETHER
"""Jobs of a lane whose handlers have returned and that hold no slot while they are settled and finished. More of them hold theirs again, so that
what a worker that dies leaves half done stays bounded."""


_GROUPS = 4
_ENOUGH_TOGETHER = 50


def group_of(concurrency: int) -> int:
    """The jobs of a group in a lane of so many slots, so that they are as many whole groups: four of them, so that worker, Redis and PostgreSQL
    each have one in hand while the next one gathers, or fewer where they would be smaller than fifty, and cost more than they gain."""  # noqa: D205, D209 - one thought
    groups = max(_whole(concurrency, MOST_TOGETHER), min(_GROUPS, _whole(concurrency, _ENOUGH_TOGETHER)))
    return _whole(concurrency, groups)


def _whole(total: int, part: int) -> int:
    return -(-total // part)


class Lane:
    """One queue's slots in this worker.

    `together`: the jobs of a group, so that its slots are as many whole ones. `running`: its slots that are taken, each by a handler; `ending`: jobs
    whose handlers have come to their end; `emptied` is set while there are neither. `resume_at` (monotonic): when it may claim by time alone. `watched_until`: how long the wait for its jobs that is going on will last;
    never, when there is none.

    With one slot, no job begins before the one before it has ended.
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
        self.together = group_of(concurrency)
        self._limit = limit
        self._engine = engine
        self._begin = begin
        self._lease_seconds = lease_seconds
        self._worker = worker
        self._clock = clock
        self._on_change = on_change
        self.running = 0
        self.ending = 0
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.open = True
        self.resume_at: float = 0.0
        self.watched_until: float = float("inf")
        self._limited = False
        self._asked = 0
        self._wanted = 1
        self._streak_until = 0.0

    @property
    def free(self) -> int:
        """Slots without a job, for which none is on its way."""
        return self._free_after(0)

    def has_room(self) -> bool:
        """Whether a slot is free, and may be filled; a few slots of many wait for more while many jobs end, which fill them."""
        is_worth_it = 2 * self.free >= self.together or 2 * self.ending < self.together
        return self.open and self.free > 0 and is_worth_it

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
        """Claim until the slots are full or nothing is left; each claim asks for four times as many jobs as the one before it found.

        The first one that finds a job leaves it to the marker to say whether there are more: a lonely job costs one claim.
        """
        while self.may_claim():
            first = self._clock.monotonic() > self._streak_until
            wanted = 1 if first else min(self._wanted, self.free, self.together)
            self._asked += wanted
            try:
                claims = await self._engine.claim_group(self.queue, self._request(), wanted)
            finally:
                self._asked -= wanted
            self._continue(wanted)
            if first and claims.jobs:
                self.resume_at = self._clock.monotonic() + POLL_SECONDS
            self._start(claims.jobs)
            if claims.idle is not None:
                self._rest(claims.idle)

    def returned(self, count: int, *, waiting: bool = False) -> None:
        """So many handlers have come to their end; their slots are free, except where too many jobs wait for theirs.

        The next jobs come with the ends of these. They are claimed at once, by whole groups, where those have to wait for their turn, and where a
        whole group came back together: its handlers have nothing to wait for, and the servers would.
        """
        self.running -= count
        self.ending += count
        if (waiting or count >= self.together) and self.may_claim() and self.free >= self.together:
            self._on_change()

    def ask(self, ends: int) -> Wanted | None:
        """What to ask for in place of so many jobs that end now; nothing once the lane is closed."""
        most = min(ends, self._free_after(ends))
        if not self.open or most <= 0:
            return None
        self._asked += most
        return Wanted(self._request(), most)

    def heard(self, wanted: Wanted | None) -> None:
        """Keep nothing free any more for jobs that were asked for."""
        if wanted is not None:
            self._asked -= wanted.most

    def left(self, ends: Sequence[Finished | None], *, slots: int = 0, wanted: Wanted | None = None) -> None:
        """Begin the jobs that the ends of others have claimed; what is left of the slots is free, and may be worth a look."""
        following = [None if end is None else end.next for end in ends]
        jobs = [job for job in following if isinstance(job, ClaimedJob)]
        idle = [each for each in following if isinstance(each, Idle)]
        had_room = self.has_room()
        self.running -= slots
        self.ending -= len(ends) - slots
        self._start(jobs)
        if len(jobs) > 1:
            self._continue(len(jobs))
        if not self.has_room():
            return
        if None in ends or len(jobs) + len(idle) < (1 if wanted is None else wanted.most):
            self.wake()
        elif idle and self.resume_at > 0.0:  # else woken meanwhile: what it heard may be older
            self._rest(idle[-1])
        is_watched = had_room and self.resume_at >= self.watched_until
        if not is_watched:
            self._on_change()

    def _free_after(self, ends: int) -> int:
        """The slots that are free once so many jobs have ended whose handlers have returned."""
        kept = max(0, self.ending - ends - min(self.concurrency - 1, MOST_ENDING))
        return self.concurrency - self.running - self._asked - kept

    def _start(self, jobs: Sequence[ClaimedJob]) -> None:
        self.running += len(jobs)
        if jobs:
            self.emptied.clear()
            self._begin(jobs, self)
        elif self.running + self.ending == 0:
            self.emptied.set()

    def _continue(self, wanted: int) -> None:
        self._wanted = 4 * wanted
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
