"""The one runner for background loops: a component supplies `tick()`, everything else is the same for all of them."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

from homing.clock import Clock, SystemClock
from homing.errors import ServerUnavailable

log = logging.getLogger("homing.service")

MAX_ERROR_WAIT_SECONDS = 5.0


class Progress(Enum):
    """What a tick says about the next one."""

    AGAIN = "again"
    """There was work and there may be more: go on at once."""
    REST = "rest"
    """Nothing more to do now: wait for the interval or for `wake`."""


class Loop:
    """Calls `tick` again and again until it is stopped; finishes the tick in flight, never interrupts it.

    An error of a tick is logged and the tick is tried again after a growing, jittered wait of at most five seconds: a loop does not
    die. A server that is away is logged once per outage. `last_tick` (monotonic seconds) tells whether the loop still turns.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], Awaitable[Progress]],
        *,
        interval_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self.errors = 0
        self._tick = tick
        self._clock = clock or SystemClock()
        self.last_tick = self._clock.monotonic()
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._away = False

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name=f"homing:{self.name}")

    def wake(self) -> None:
        """Make the next tick come now."""
        self._woken.set()

    async def stop(self) -> None:
        """Let the tick in flight finish, then end."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await self._task

    @property
    def running(self) -> bool:
        """Whether the loop turns."""
        return self._task is not None and not self._task.done()

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            progress = await self._tick_safely()
            self.last_tick = self._clock.monotonic()
            if progress is not Progress.AGAIN and not self._stopping:
                await self._rest()

    async def _tick_safely(self) -> Progress:
        try:
            progress = await self._tick()
        except ServerUnavailable as error:
            self.errors += 1
            if not self._away:
                log.warning("%s: %s; trying again until it is back", self.name, error)
            self._away = True
            return Progress.REST
        except (Exception, asyncio.CancelledError):
            if self._cancelled():
                raise
            self.errors += 1
            log.exception("%s failed; the loop goes on", self.name)
            return Progress.REST
        if self._away:
            log.info("%s: the server is back", self.name)
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


async def stop_all(loops: Sequence[Loop]) -> None:
    """Stop loops together, and wait for all of them."""
    await asyncio.gather(*(loop.stop() for loop in loops))
