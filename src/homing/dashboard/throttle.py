"""Guessing passwords is slowed down: whoever was wrong a few times waits, and longer each time."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from homing.clock import Clock, SystemClock

FREE_TRIES = 5
FIRST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 120.0
FORGOTTEN_SECONDS = 3600.0

_REMEMBERED = 10_000


@dataclass(slots=True)
class _Tries:
    wrong: int
    at: float


class Throttle:
    """Counts wrong passwords by name and by address, in this process. A right one forgets the name's.

    `turn` is held from the question whether a try may be made to the word of what came of it.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.turn = asyncio.Lock()
        self._tries: OrderedDict[str, _Tries] = OrderedDict()

    def wait_seconds(self, *keys: str) -> float:
        """How long the next try has to wait; 0 = it may be made now."""
        return max((self._left(key) for key in keys), default=0.0)

    def note_wrong(self, *keys: str) -> None:
        """A try was wrong."""
        now = self._clock.monotonic()
        for key in keys:
            tries = self._tries.setdefault(key, _Tries(0, now))
            forgotten = now - tries.at > FORGOTTEN_SECONDS
            tries.wrong, tries.at = 1 if forgotten else tries.wrong + 1, now
            self._tries.move_to_end(key)
        while len(self._tries) > _REMEMBERED:
            self._tries.popitem(last=False)

    def note_right(self, key: str) -> None:
        """A try was right."""
        self._tries.pop(key, None)

    def _left(self, key: str) -> float:
        tries = self._tries.get(key)
        if tries is None or tries.wrong < FREE_TRIES:
            return 0.0
        wait = min(FIRST_WAIT_SECONDS * 2.0 ** min(tries.wrong - FREE_TRIES, 20), LONGEST_WAIT_SECONDS)
        return max(0.0, tries.at + wait - self._clock.monotonic())
