"""A queue in memory as people see it, and what they do to it: the same answers as from Redis."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from homing.clock import Clock
from homing.ids import JobId, LeaseToken
from homing.queue.browse import (
    LAST_LINES,
    MOST_LISTED,
    JobPage,
    JobState,
    Obliterated,
    QueueTerms,
    ShownJob,
    moment,
    read_cursor,
    start_after,
    write_cursor,
)
from homing.queue.job import JobCounts, JobEnd
from homing.queue.memory_entry import Entry, State
from homing.queue.memory_kin import MemoryKin
from homing.queue.notes import KEPT_LINES, LONGEST_LINE, LogPage
from homing.queue.parent import JobRef


class MemoryBrowsing(MemoryKin):
    """The jobs of one queue, for eyes and hands. Looking moves nothing: a delayed job that is due stays so until the next claim, as in Redis."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._wall_clock = clock

    def browse(self, state: JobState, after: str | None, most: int, *, newest_first: bool) -> JobPage:
        """A page of the jobs of a state."""
        ids = self._in_order(state)
        if newest_first:
            ids.reverse()
        cursor, count = None if after is None else read_cursor(after), min(max(1, most), MOST_LISTED)
        rank = ids.index(cursor[1]) if cursor is not None and cursor[1] in ids else None
        start = start_after(cursor, rank, newest_first=newest_first)
        page = ids[start : start + count]
        more = write_cursor(start + count - 1, page[-1]) if len(ids) > start + count else None
        return JobPage(tuple(self._shown(job_id) for job_id in page), more, start)

    def show(self, job_id: JobId) -> ShownJob | None:
        """One job in full."""
        return self._shown(job_id) if job_id in self._entries else None

    def end(self, job_id: JobId) -> JobEnd:
        """What a finished job left behind."""
        entry = self._entries.get(job_id)
        return JobEnd() if entry is None else replace(entry.end, attempts_made=entry.attempts_made)

    def is_listed(self, job_id: JobId) -> bool:
        """Whether it waits, runs or is delayed."""
        entry = self._entries.get(job_id)
        return entry is not None and entry.state not in self._finished

    def counts(self) -> JobCounts:
        """Jobs by state."""
        states = [entry.state for entry in self._entries.values()]
        return JobCounts(**{state.name.lower(): states.count(state) for state in State})

    def terms(self) -> QueueTerms:
        """What holds the queue back."""
        return self.limits.terms()

    def promote(self, job_id: JobId) -> bool:
        """Let a delayed job wait."""
        entry = self._entries.get(job_id)
        if entry is None or entry.state is not State.DELAYED:
            return False
        self._line_up(entry)
        return True

    def rerun(self, job_id: JobId) -> bool:
        """Let a failed job wait again, with all its attempts."""
        entry = self._entries.get(job_id)
        if entry is None or entry.state is not State.FAILED:
            return False
        del self._finished[State.FAILED][job_id]
        entry.attempts_made = entry.starts = 0
        self._line_up(entry)
        self.on_return(JobRef(self._name, job_id), entry)
        return True

    def clean(self, state: JobState, older_than_seconds: float, most: int) -> int:
        """Remove jobs that finished longer ago."""
        if not state.finished:
            raise ValueError(f"{state.value} jobs have not finished: they are drained, removed or cancelled")
        finished = self._finished[State(state.value)]
        before = self._now() - max(0.0, older_than_seconds)
        return self._remove_all([job_id for job_id, at in finished.items() if at <= before][:most])

    def drain(self, *, delayed: bool) -> int:
        """Remove the jobs that wait."""
        states = (JobState.WAITING, JobState.PRIORITIZED, *([JobState.DELAYED] if delayed else []))
        return self._remove_all([job_id for state in states for job_id in self._in_order(state)])

    def obliterate(self, *, force: bool) -> Obliterated:
        """Whether the queue may vanish."""
        if not self.limits.paused:
            return Obliterated.NOT_PAUSED
        return Obliterated.GONE if force or not self._active() else Obliterated.RUNNING

    def _in_order(self, state: JobState) -> list[JobId]:
        """The jobs of a state, the next to run or to leave first."""
        match state:
            case JobState.WAITING:
                return list(self._waiting)
            case JobState.COMPLETED | JobState.FAILED:
                return list(self._finished[State(state.value)])
            case JobState.WAITING_CHILDREN:
                return self.waiting_for_children()
            case JobState.ACTIVE | JobState.DELAYED | JobState.PRIORITIZED:
                found = [
                    (entry.place, job_id) for job_id, entry in self._entries.items() if entry.state.value == state.value
                ]
                return [job_id for _, job_id in sorted(found)]

    def _shown(self, job_id: JobId) -> ShownJob:
        entry = self._entries[job_id]
        state = JobState(entry.state.value)
        left = entry.place[0] - self._now()
        leased = entry.token is not None and entry.lease_ends > self._now()
        return ShownJob(
            id=job_id,
            name=entry.job.name,
            state=state,
            added_at=moment(entry.job.timestamp_ms),
            due_at=self._wall_clock.now() + timedelta(seconds=left) if state is JobState.DELAYED else None,
            attempts_made=entry.attempts_made,
            priority=entry.job.priority,
            reason=entry.end.reason if state is JobState.FAILED else "",
            fields={"name": entry.job.name, "data": entry.job.data} | _told(entry),
            attempts=entry.job.attempts,
            starts=entry.starts,
            stalls=entry.stalls,
            ahead=self._ahead(job_id, state),
            lease_seconds=entry.lease_ends - self._now() if leased else None,
            mark=entry.mark,
            stacks=(entry.end.stack,) if entry.end.stack and state is JobState.FAILED else (),
            logs=tuple(entry.lines[-LAST_LINES:]),
            log_lines=len(entry.lines),
        )

    def note_progress(self, job_id: JobId, progress: str, holder: LeaseToken | None) -> bool:
        """Let a job show its progress."""
        entry = self._noted(job_id, holder)
        if entry is not None:
            entry.progress = progress
        return entry is not None

    def note_lines(self, job_id: JobId, lines: Sequence[str], holder: LeaseToken | None) -> bool:
        """Add to a job's log."""
        entry = self._noted(job_id, holder)
        if entry is not None:
            entry.lines = [*entry.lines, *(line[:LONGEST_LINE] for line in lines)][-KEPT_LINES:]
        return entry is not None

    def _noted(self, job_id: JobId, holder: LeaseToken | None) -> Entry | None:
        """The job that a run may write into, where there is one and no other run has it."""
        entry = self._entries.get(job_id)
        is_anothers = entry is not None and holder is not None and entry.token not in (None, holder)
        return None if is_anothers else entry

    def read_lines(self, job_id: JobId, first: int, most: int) -> LogPage:
        """Lines of a job's log."""
        entry, start = self._entries.get(job_id), max(0, first)
        lines = [] if entry is None else entry.lines
        return LogPage(tuple(lines[start : start + max(1, most)]), start, len(lines))

    def _ahead(self, job_id: JobId, state: JobState) -> int | None:
        return self._in_order(state).index(job_id) if state in (JobState.WAITING, JobState.PRIORITIZED) else None

    def _remove_all(self, ids: Iterable[JobId]) -> int:
        return [self.remove(job_id) for job_id in ids].count(True)


def _told(entry: Entry) -> dict[str, str]:
    return {} if entry.progress is None else {"progress": entry.progress}
