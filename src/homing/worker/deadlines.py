"""The ends of attempts: one timer for all runs, since nearly all of them end long before theirs."""

import asyncio
from typing import Protocol


class Timed(Protocol):
    """Something that may take so long and no longer."""

    def expire(self) -> None:
        """Its time is up."""
        ...


class Deadlines:
    """Tells what is under way that its time is up. Runs with the same time stand in one line, the oldest first."""

    def __init__(self) -> None:
        self._lines: dict[float, dict[Timed, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, timed: Timed, seconds: float) -> None:
        """Expire it after `seconds`, unless it ends before."""
        at = asyncio.get_running_loop().time() + seconds
        line = self._lines.get(seconds)
        if line is None:
            line = self._lines[seconds] = {}
        line[timed] = at
        if self._timer is None or at < self._timer.when():
            self._look_at(at)

    def end(self, timed: Timed, seconds: float) -> None:
        """It has ended, or is given up."""
        self._lines[seconds].pop(timed, None)

    def _look_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for line in list(self._lines.values()):
            for timed in _take_due(line, now):
                timed.expire()
        left = [next(iter(line.values())) for line in self._lines.values() if line]
        if left:
            self._look_at(min(left))


def _take_due(line: dict[Timed, float], now: float) -> list[Timed]:
    due: list[Timed] = []
    for timed, at in line.items():
        if at > now:
            break
        due.append(timed)
    for timed in due:
        del line[timed]
    return due
