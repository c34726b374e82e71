"""The clock that Python code asks, so that a test can hold it still. Rows are judged by the database's own clock."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for what is written down, monotonic time for what is waited for."""

    def now(self) -> datetime:
        """The current time, always with a zone (UTC)."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class ManualClock:
    """A clock that moves only when it is told to."""

    at: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    ticks: float = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.ticks

    def advance(self, by: timedelta) -> None:
        """Move both readings forward by `by`."""
        self.at += by
        self.ticks += by.total_seconds()
