"""The one runner for background loops: a component supplies `tick()`, everything else is the same for all of them."""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from homing.clock import Clock, SystemClock
from homing.errors import ServerUnavailable

log = logging.getLogger("homing.service")

MAX_ERROR_WAIT_SECONDS = 5.0

PATIENCE_SECONDS = 120.0
"""The longest that one tick of an ordinary loop may take; every call to a server inside it ends within 15 seconds."""

STOPPING_SECONDS = 5.0
"""How long a stop waits for a tick in flight before it is broken off."""


class Progress(Enum):
    """What a tick says about the next one."""

    AGAIN = "again"
    """There was work and there may be more: go on at once."""
    REST = "rest"
    """Nothing more to do now: wait for the interval or for `wake`."""


@dataclass(frozen=True, slots=True)
class Turning:
    """What a look at a loop shows. `silent_seconds`: since it turned last; more than `allowed_seconds` and it is stuck."""

    name: str
    dead: bool
    away: bool
    silent_seconds: float
    allowed_seconds: float

    @property
    def trouble(self) -> str | None:
        """Why this loop does no work any more, though nobody stopped it."""
        if self.dead:
            return f"the loop {self.name} is dead"
        if self.silent_seconds > self.allowed_seconds:
            return f"the loop {self.name} is stuck: it has not turned within {self.allowed_seconds:g} s"
        return None


class Outages:
    """Tells an outage once, however many loops meet it, and its end when the last of them is through. Shared by loops of one process."""

    def __init__(self, on_end: Callable[[str], None] = lambda _: None) -> None:
        self._waiting: dict[str, set[str]] = {}
        self._on_end = on_end

    def waiting(self) -> Mapping[str, frozenset[str]]:
        """The servers that some loop waits for now, and which loops those are; any thread may ask."""
        return {server: frozenset(loops) for server, loops in sorted(self._waiting.copy().items())}

    def begin(self, loop: str, error: ServerUnavailable) -> None:
        """A loop met a server that does not answer."""
        waiting = self._waiting.setdefault(error.server, set())
        if loop in waiting:
            return
        level = logging.DEBUG if waiting else logging.WARNING
        log.log(level, "%s: %s; trying again until it is back", loop, error)
        waiting.add(loop)

    def end(self, loop: str) -> None:
        """A loop got an answer, from whichever server it asked."""
        for server in [server for server, waiting in self._waiting.items() if loop in waiting]:
            self._waiting[server].discard(loop)
            if not self._waiting[server]:
                del self._waiting[server]
                log.info("%s: the server is back", loop)
                self._on_end(server)


class Loop:
    """Calls `tick` again and again until it is stopped; finishes the tick in flight, never interrupts it.

    An error of a tick is logged and the tick is tried again after a growing, jittered wait of at most five seconds: a loop does not
    die. A server that is away is logged once per outage. `last_tick` (monotonic seconds) tells whether the loop still turns;
    `patience_seconds` is the longest that one tick may take: beyond it, and beyond the rest between two ticks, the loop is stuck.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], Awaitable[Progress]],
        *,
        interval_seconds: float,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self.patience_seconds = patience_seconds
        self.errors = 0
        self._tick = tick
        self._clock = clock or SystemClock()
        self.last_tick = self._clock.monotonic()
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._away = False
        self.outages = Outages()

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self.last_tick = self._clock.monotonic()
        self._task = asyncio.create_task(self._run(), name=f"homing:{self.name}")

    def wake(self) -> None:
        """Make the next tick come now."""
        self._woken.set()

    async def stop(self, within_seconds: float = STOPPING_SECONDS) -> None:
        """Let the tick in flight finish, then end; one that takes longer than `within_seconds` is broken off."""
        self._stopping = True
        self.wake()
        if self._task is None:
            return
        _, slow = await asyncio.wait({self._task}, timeout=within_seconds)
        if slow:
            log.warning("%s has not finished its tick within %g s and is broken off", self.name, within_seconds)
            self._task.cancel()
            await asyncio.wait(slow, timeout=within_seconds)
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()):
            log.error("%s had died", self.name, exc_info=error)

    @property
    def running(self) -> bool:
        """Whether the loop turns."""
        return self._task is not None and not self._task.done()

    @property
    def away(self) -> bool:
        """Whether the last tick met a server that does not answer."""
        return self._away

    def look(self, now: float, awake_since: float = -math.inf) -> Turning:
        """How the loop does at `now` (monotonic); it is blamed for no silence before `awake_since`. Any thread may look.

        A loop that has not begun, or was told to stop, is in no trouble.
        """
        idle = self._task is None or self._stopping
        longest_rest = max(self.interval_seconds * 1.1, MAX_ERROR_WAIT_SECONDS)
        return Turning(
            name=self.name,
            dead=not idle and not self.running,
            away=self._away,
            silent_seconds=0.0 if idle else now - max(self.last_tick, awake_since),
            allowed_seconds=longest_rest + self.patience_seconds,
        )

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            progress = await self._tick_safely()
            self.last_tick = self._clock.monotonic()
            if progress is Progress.AGAIN or self._woken.is_set():
                await asyncio.sleep(0)  # a tick that waited for nothing must not keep the event loop for itself
            elif not self._stopping:
                await self._rest()

    async def _tick_safely(self) -> Progress:
        try:
            progress = await self._tick()
        except ServerUnavailable as error:
            self.errors += 1
            self.outages.begin(self.name, error)
            self._away = True
            return Progress.REST
        except (Exception, asyncio.CancelledError):
            if self._cancelled():
                raise
            self.errors += 1
            log.exception("%s failed; the loop goes on", self.name)
            return Progress.REST
        if self._away:
            self.outages.end(self.name)
        self._away, self.errors = False, 0
        return progress

    def _cancelled(self) -> bool:
        """Whether somebody ends the loop itself, rather than something that its tick waited for."""
        return self._task is not None and self._task.cancelling() > 0

    async def _rest(self) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), self._rest_seconds())
        except TimeoutError:
            return

    def _rest_seconds(self) -> float:
        if self.errors:
            wait = min(max(self.interval_seconds, 0.1) * 2.0 ** min(self.errors, 10), MAX_ERROR_WAIT_SECONDS)
            return wait * random.uniform(0.8, 1.0)  # noqa: S311 - spreads processes apart, guards nothing
        return self.interval_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - as above


def share_outages(loops: Iterable[Loop], on_end: Callable[[str], None] = lambda _: None) -> Outages:
    """Let these loops tell each outage once between them; `on_end` is called with the server that answers again."""
    outages = Outages(on_end)
    for loop in loops:
        loop.outages = outages
    return outages


async def stop_all(loops: Sequence[Loop]) -> None:
    """Stop loops together, and wait for all of them."""
    await asyncio.gather(*(loop.stop() for loop in loops))
