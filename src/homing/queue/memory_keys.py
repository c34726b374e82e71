"""Limits by key in memory: the same windows, lines and pauses as in the script on Redis."""

from dataclasses import dataclass, field

from homing.clock import Clock
from homing.ids import JobId
from homing.queue.port import Limit


@dataclass(slots=True)
class _Key:
    """One key: its window, its pause, and when the jobs that were sent away have their turn."""

    window: float = float("-inf")
    starts: int = 0
    paused: float = float("-inf")
    line: dict[JobId, float] = field(default_factory=dict)


class MemoryKeys:
    """The keys of one queue. Nothing is forgotten: the engine lives as long as a test."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[str, _Key] = {}

    def pause(self, key: str, seconds: float) -> None:
        """Let no job with this key start for `seconds`; a longer pause stays."""
        state = self._keys.setdefault(key, _Key())
        state.paused = max(state.paused, self._clock.monotonic() + seconds)

    def wait_seconds(self, job_id: JobId, key: str, limit: Limit | None) -> float:
        """How long the job must wait; 0 = it starts now, and is counted."""
        now, state = self._clock.monotonic(), self._keys.setdefault(key, _Key())
        if limit is None:
            return max(0.0, state.paused - now)
        in_line = sorted(state.line, key=lambda waiting: (state.line[waiting], waiting))
        rank = in_line.index(job_id) if job_id in state.line else None
        if state.paused <= now:
            self._turn_window(state, now, limit)
            if state.starts + (len(in_line) if rank is None else 0) < limit.jobs:
                state.starts += 1
                state.line.pop(job_id, None)
                return 0.0
        ahead = len(in_line) if rank is None else rank
        turn = max(state.window + limit.seconds, state.paused) + ahead // limit.jobs * limit.seconds
        state.line[job_id] = turn
        return turn - now

    def _turn_window(self, state: _Key, now: float, limit: Limit) -> None:
        if now < state.window + limit.seconds:
            return
        follows = now < state.window + 2 * limit.seconds
        state.window, state.starts = (state.window + limit.seconds if follows else now), 0
