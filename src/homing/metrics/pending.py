"""What was counted and is not in the client's own instruments yet: a run is counted in a few microseconds, and the sums are made once a second."""

from bisect import bisect_left
from collections import deque
from typing import Any

from prometheus_client import Counter, Histogram

MOST = 1_000
"""Values that wait in one series at most, where nobody reads."""


class Pending:
    """Values of one series. Any thread may add and any may flush: each value is taken once."""

    __slots__ = ("_values", "add_all")

    def __init__(self) -> None:
        self._values: deque[float] = deque()
        self.add_all = self._values.extend

    def is_full(self) -> bool:
        """Whether it is time to flush without being read."""
        return len(self._values) >= MOST

    def take(self) -> list[float]:
        """The values that were added, which are gone from here."""
        taken: list[float] = []
        while self._values:
            try:
                taken.append(self._values.popleft())
            except IndexError:  # another thread took the last one
                break
        return taken


class PendingCounter(Pending):
    """What a counter has still to grow by."""

    __slots__ = ("_counter",)

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def flush(self) -> None:
        """Add it."""
        if values := self.take():
            self._counter.inc(sum(values))


class PendingHistogram(Pending):
    """What a histogram has still to observe.

    The client has a call for one value only, so its buckets are added to directly, as its own `observe` does it.
    """

    __slots__ = ("_bounds", "_buckets", "_sum")

    def __init__(self, histogram: Histogram) -> None:
        super().__init__()
        self._bounds: list[float] = histogram._upper_bounds  # noqa: SLF001 - as said above
        self._buckets: list[Any] = histogram._buckets  # noqa: SLF001 - as said above
        self._sum: Any = histogram._sum  # noqa: SLF001 - as said above

    def flush(self) -> None:
        """Observe it."""
        values = self.take()
        if not values:
            return
        counts = [0] * len(self._bounds)
        for value in values:
            counts[bisect_left(self._bounds, value)] += 1
        self._sum.inc(sum(values))
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
