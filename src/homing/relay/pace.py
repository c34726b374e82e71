"""How fast each queue is looked at: so many rows a second, in pages, never faster after a rest."""

import asyncio
import random

from homing.clock import Clock

LONGEST_WAIT_SECONDS = 0.25


class Pace:
    """Permits for rows, per queue: `rate` a second. A queue that was idle has a whole page at once, and no more."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._permits: dict[str, tuple[float, float]] = {}

    async def permit(self, queue: str, page: int) -> int:
        """How many rows may be looked at now, from 1 to `page`; waits a fraction of a second where there are too few for a page.

        The wait is jittered, so that the pages of many queues and relays do not come in step.
        """
        wanted = min(float(page), max(1.0, self._rate * LONGEST_WAIT_SECONDS))
        missing = wanted - self._left(queue, page)
        if missing > 0:
            await asyncio.sleep(missing / self._rate * random.uniform(1.0, 1.2))  # noqa: S311 - spreads pages apart, guards nothing
        return max(1, int(self._left(queue, page)))

    def spend(self, queue: str, rows: int) -> None:
        """So many rows were looked at."""
        left, at = self._permits[queue]
        self._permits[queue] = (left - rows, at)

    def _left(self, queue: str, page: int) -> float:
        now = self._clock.monotonic()
        left, at = self._permits.get(queue, (float(page), now))
        left = min(float(page), left + (now - at) * self._rate)
        self._permits[queue] = (left, now)
        return left
