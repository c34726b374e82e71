"""Back-off per queue: one that fails again and again is tried ever more seldom, and costs the others nothing."""

from homing.clock import Clock

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 15.0


class BackOff:
    """How long each queue rests after failures in a row: half a second, doubling to fifteen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def fail(self, queue: str) -> None:
        """One more failure; what fails while the queue rests already counts once."""
        if self.holds(queue):
            return
        failures = self._failures[queue] = self._failures.get(queue, 0) + 1
        self._until[queue] = self._clock.monotonic() + min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** (failures - 1))

    def succeed(self, queue: str) -> None:
        """It works: the next failure is the first again."""
        self._failures.pop(queue, None)
        self._until.pop(queue, None)

    def holds(self, queue: str) -> bool:
        """Whether the queue rests now."""
        return self._clock.monotonic() < self._until.get(queue, float("-inf"))
