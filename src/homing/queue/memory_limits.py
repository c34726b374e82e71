"""How many jobs of one queue in memory may start, and how many may run: BullMQ's counter and its fields, without Redis."""

from collections.abc import Callable

from homing.clock import Clock
from homing.queue.browse import QueueTerms
from homing.queue.port import Limit, QueueSettings, Unsaid

NEVER_BINDING = Limit(jobs=1_000_000_000, seconds=1.0)
"""The limit of a queue that has none, so that its workers heed a pause: no queue starts that many jobs in a second."""

_PAUSED = 2**53 - 1


class MemoryLimits:
    """Counts starts in a window that begins with the first of them; a pause is a window that is full from its beginning."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._concurrency: int | None = None
        self.paused = False
        self._limit: Limit | None = None
        self._window_ends = float("-inf")
        self._starts = 0

    def push(self, settings: QueueSettings) -> None:
        """Take the settings that are said."""
        if not isinstance(settings.concurrency, Unsaid):
            self._concurrency = settings.concurrency
        if not isinstance(settings.paused, Unsaid):
            self.paused = settings.paused
        if settings.limit is None and self._limit == NEVER_BINDING:
            return
        if not isinstance(settings.limit, Unsaid):
            self._limit = settings.limit

    def pause(self, seconds: float, limit: Limit | None) -> None:
        """Let nothing start for `seconds`; a full window that ends later stays."""
        if self._limit is None:
            self._limit = limit or NEVER_BINDING
        ends = self._clock.monotonic() + seconds
        if self._starts < self._limit.jobs or self._window_ends < ends:
            self._window_ends, self._starts = ends, _PAUSED

    def terms(self) -> QueueTerms:
        """What is set, and how long a full window still lasts."""
        limit = None if self._limit == NEVER_BINDING else self._limit
        return QueueTerms(
            paused=self.paused,
            concurrency=self._concurrency,
            limit=limit,
            throttled_seconds=self.wait_seconds(None),
        )

    def wait_seconds(self, asked: Limit | None) -> float:
        """How long until the next start is permitted; 0 = now."""
        limit = self._in_force(asked)
        if limit is None or self._starts < limit.jobs:
            return 0.0
        return max(0.0, self._window_ends - self._clock.monotonic())

    def note_start(self, asked: Limit | None) -> None:
        """Count a start, and begin a window where the last one has ended."""
        limit = self._in_force(asked)
        if limit is None:
            return
        if self._clock.monotonic() >= self._window_ends:
            self._window_ends, self._starts = self._clock.monotonic() + limit.seconds, 0
        self._starts += 1

    def is_full(self, count_running: Callable[[], int]) -> bool:
        """Whether as many jobs run as the queue lets run; they are counted only where that matters."""
        return self._concurrency is not None and count_running() >= self._concurrency

    def _in_force(self, asked: Limit | None) -> Limit | None:
        """The number of the queue and the time of the claim, where both say something: BullMQ reads them so."""
        if self._limit is None or asked is None:
            return self._limit or asked
        return Limit(self._limit.jobs, asked.seconds)
