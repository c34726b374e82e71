"""What a run tells about itself while it works: its progress, and lines for people. Shown with the job, worth nothing to any decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from homing.ids import JobId, LeaseToken

KEPT_LINES = 1_000
"""Lines of one job that are kept, the last ones."""

LONGEST_LINE = 10_000
"""Characters of one line; the rest of it is cut off."""

MOST_PROGRESS_BYTES = 64 * 1024
"""The longest progress, as UTF-8 JSON."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines of a job, the oldest first: `first` is the number of the first of them, of `total` that are kept."""

    lines: tuple[str, ...]
    first: int
    total: int


class Noting(Protocol):
    """Where runs write what they tell. A job that is gone, or that another run than `holder` has, keeps nothing: which is the answer and no error."""

    async def note_progress(
        self, queue: str, job_id: JobId, progress: str, *, holder: LeaseToken | None = None
    ) -> bool:
        """Let the job show this progress (JSON text) instead of an earlier one; `False` when it keeps nothing."""
        ...

    async def note_lines(
        self, queue: str, job_id: JobId, lines: Sequence[str], *, holder: LeaseToken | None = None
    ) -> bool:
        """Add lines to the job's log, of which the last `KEPT_LINES` stay; `False` when it keeps nothing."""
        ...

    async def read_lines(self, queue: str, job_id: JobId, *, first: int = 0, most: int = 100) -> LogPage:
        """Lines of a job's log, from the line with this number; a job without any has none."""
        ...
