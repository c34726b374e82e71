"""The look that all pages share: taken every few seconds in the background, kept in memory with the last quarter of an hour."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from homing.clock import Clock, SystemClock
from homing.errors import HomingError, ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.operations.pace import OpenWork, Pace, read_open_work, read_pace
from homing.operations.servers import Servers
from homing.operations.status import Status, read_status
from homing.operations.verdict import Level, Reason, Verdict
from homing.service import Loop, Progress

log = logging.getLogger("homing.dashboard")

LOOK_SECONDS = 4.0
"""How often the look is taken: a standstill is red within 15 seconds."""

PATIENCE_SECONDS = 10.0
"""How long one look may take before it is given up."""

STALE_SECONDS = 15.0
"""How old a look may be before it says nothing any more."""

REMEMBERED = 225
"""Looks that are remembered: a quarter of an hour."""

MOST_QUEUES = 500
"""Queues whose past is remembered."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the sparklines of the overview show of one look."""

    settled_per_second: float
    oldest_seconds: float
    dead_per_second: float
    unowned: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The last look and what is to be thought of it; `error` says why there is no newer one."""

    verdict: Verdict
    status: Status | None = None
    error: str | None = None
    at: datetime | None = None
    paces: Mapping[str, Pace] = field(default_factory=dict)


class Lookout:
    """Takes looks, keeps them, and wakes whoever waits for the next one. Everything but `tick` reads memory."""

    def __init__(self, servers: Servers, clock: Clock | None = None) -> None:
        self._servers = servers
        self._clock = clock or SystemClock()
        self._loop = Loop("dashboard look", self.tick, interval_seconds=LOOK_SECONDS, patience_seconds=30.0)
        self._status: Status | None = None
        self._work: OpenWork | None = None
        self._paces: dict[str, Pace] = {}
        self._error: str | None = None
        self._looked_at = self._clock.monotonic()
        self._first = asyncio.Event()
        self._next = asyncio.Event()
        self._closing = False
        self.number = 0
        self.samples: deque[Sample] = deque(maxlen=REMEMBERED)
        self.waiting: dict[str, deque[int]] = {}

    async def start(self) -> None:
        """Begin to look."""
        self._loop.start()

    async def stop(self) -> None:
        """End, and let those who wait go."""
        self.leave()
        await self._loop.stop()

    def leave(self) -> None:
        """Let those who wait go: there will be no more looks."""
        self._closing = True
        self._next.set()

    async def tick(self) -> Progress:
        """Take a look; one that fails leaves the last one, which grows old, and says why."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._look(await self._servers.open())
        except TimeoutError:
            self._error = f"the servers did not answer within {PATIENCE_SECONDS:g} s"
        except ServerUnavailable as error:
            self._error = str(error)
            raise
        except HomingError as error:
            if self._error != str(error):
                log.warning("nothing can be seen: %s", error)
            self._error = str(error)
        finally:
            self._turn()
        return Progress.REST

    async def wait_first(self, within_seconds: float) -> None:
        """Wait for the first look, good or bad."""
        try:
            async with asyncio.timeout(within_seconds):
                await self._first.wait()
        except TimeoutError:
            return

    async def wait_next(self, within_seconds: float) -> bool:
        """Wait for the next look; `False` when there is none in this time. Once `is_closing`, nobody waits."""
        turn = self._next
        try:
            async with asyncio.timeout(within_seconds):
                await turn.wait()
        except TimeoutError:
            return False
        return True

    @property
    def is_closing(self) -> bool:
        """Whether there will be no more looks."""
        return self._closing

    def seen(self) -> Seen:
        """What is to be thought now: the verdict of the last look, or that nobody knows."""
        age_seconds = self._clock.monotonic() - self._looked_at
        error = self._error
        if error is None and age_seconds > STALE_SECONDS:
            error = f"nothing was seen for {age_seconds:.0f} s"
        if error is not None or self._status is None:
            text = error or "the first look is not taken yet"
            level = Level.ATTENTION if error is None else Level.STALLED
            old = "what is shown below is old; " if self._status is not None else ""
            verdict = Verdict(level, (Reason(level, text, f"{old}this page goes on by itself"),))
            return Seen(verdict=verdict, status=self._status, error=text, at=self._at())
        return Seen(verdict=self._status.verdict, status=self._status, at=self._at(), paces=self._paces)

    async def _look(self, ledger: Ledger) -> None:
        before = self._status
        status = await read_status(ledger, self._servers.engine, None if before is None else before.overview)
        paces: tuple[Pace, ...] = ()
        is_first = self._work is None
        if self._work is None:
            self._work = await read_open_work(ledger)
        else:
            self._work, paces = await read_pace(ledger, self._work)
        self._status, self._error = status, None
        self._paces = {pace.consumer: pace for pace in paces}
        self._looked_at = self._clock.monotonic()
        if not is_first:  # a pace is told by two looks
            self._remember(status)

    def _remember(self, status: Status) -> None:
        self.samples.append(
            Sample(
                settled_per_second=sum(pace.settled_per_second for pace in self._paces.values()),
                oldest_seconds=oldest_seconds(status),
                dead_per_second=sum(pace.dead_per_second for pace in self._paces.values()),
                unowned=count_unowned(status),
            )
        )
        counted = [queue for queue in status.overview.queues if queue.counts is not None][:MOST_QUEUES]
        for queue in counted:
            if queue.counts is not None:
                past = self.waiting.setdefault(queue.queue, deque(maxlen=REMEMBERED))
                past.append(queue.counts.waiting + queue.counts.prioritized)
        if len(self.waiting) > MOST_QUEUES:
            names = {queue.queue for queue in counted}
            self.waiting = {name: past for name, past in self.waiting.items() if name in names}

    def _turn(self) -> None:
        self.number += 1
        self._first.set()
        turn, self._next = self._next, asyncio.Event()
        turn.set()

    def _at(self) -> datetime | None:
        return None if self._status is None else self._status.overview.at


def oldest_seconds(status: Status) -> float:
    """How old the oldest event or delivery is that is not done. Pure."""
    events = (topic.oldest_claimable_seconds for topic in status.overview.topics)
    deliveries = (consumer.oldest_unsettled_seconds for consumer in status.consumers)
    return max((*events, *deliveries), default=0.0)


def count_unowned(status: Status) -> int:
    """Topics and consumers that are nobody's. Pure."""
    parked = sum(1 for topic in status.overview.topics if topic.parked)
    return len(status.unroutable) + len(status.unowned) + parked
