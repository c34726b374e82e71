"""A sliding window that never lets more than N calls through in any one second."""

import math
from collections import deque

WINDOW_SECONDS = 1.0


class SlidingWindow:
    """The admitted calls of the last second of one caller, by a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._admitted: deque[float] = deque()

    def admit(self, now: float, limit: int) -> int | None:
        """Count a call in and return None, or return the whole seconds (at least 1) to wait; refused calls do not count."""
        while self._admitted and now - self._admitted[0] >= WINDOW_SECONDS:
            self._admitted.popleft()
        if len(self._admitted) < limit:
            self._admitted.append(now)
            return None
        return max(1, math.ceil(self._admitted[-limit] + WINDOW_SECONDS - now))


def busiest_second(times: list[float]) -> int:
    """Return the largest number of these moments (seconds) that fall into any one second."""
    ordered = sorted(times)
    first = busiest = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= WINDOW_SECONDS:
            first += 1
        busiest = max(busiest, last - first + 1)
    return busiest
