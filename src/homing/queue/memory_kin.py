"""One queue in memory, as the families of its jobs see it."""

from homing.ids import JobId
from homing.queue.flows import SOON_SECONDS
from homing.queue.job import Lease, NewJob
from homing.queue.memory_entry import Entry, State
from homing.queue.memory_queue import MemoryQueue
from homing.queue.port import Held


class MemoryKin(MemoryQueue):
    """The jobs of one queue, some of which wait for children."""

    def entry(self, job_id: JobId) -> Entry | None:
        """A job with everything that happened to it, for whoever counts what became of its family."""
        return self._entries.get(job_id)

    def add_member(self, job: NewJob, *, waits: bool) -> Entry:
        """Add a job of a flow whose id is free; with `waits` it waits for its children first."""
        if waits:
            self._entries[job.id] = Entry(job, State.WAITING_CHILDREN, place=(self._now(), 0))
        else:
            self._enter(job)
        return self._entries[job.id]

    def wait_for_children(self, lease: Lease) -> Held:
        """Give a job back until its children have ended; at once where none is left to wait for."""
        entry = self._entries.get(lease.job_id)
        if entry is not None and (entry.family.fatal or not entry.family.pending):
            return self.retry(lease, SOON_SECONDS, spend_attempt=False, refund_start=True)
        entry, held = self._take(lease)
        if entry is not None:
            entry.starts -= 1
            entry.state, entry.place = State.WAITING_CHILDREN, (self._now(), 0)
        return held

    def go_on(self, job_id: JobId) -> bool:
        """Let a job that waits for its children wait to be claimed, in front of the others; `False` when it does not wait for any."""
        entry = self._entries.get(job_id)
        if entry is None or entry.state is not State.WAITING_CHILDREN:
            return False
        if entry.job.delay_seconds > 0 and not entry.starts:
            self._delay(entry, entry.job.delay_seconds)
        elif entry.job.priority:
            self._line_up(entry)
        else:
            self._put_first(entry)
        return True

    def waited_seconds(self, job_id: JobId) -> float:
        """For how long a job has waited for its children: since it was given back for that, or since it was added for a parent from the start."""
        return max(0.0, self._now() - self._entries[job_id].place[0])

    def waiting_for_children(self) -> list[JobId]:
        """The jobs that wait for their children, in the order of their times."""
        waiting = [entry for entry in self._entries.values() if entry.state is State.WAITING_CHILDREN]
        return [entry.job.id for entry in sorted(waiting, key=lambda one: one.job.timestamp_ms)]
