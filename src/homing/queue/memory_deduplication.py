"""Which job stands for which de-duplication id: BullMQ's rules, step for step, without its scripts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from homing.clock import Clock
from homing.ids import JobId
from homing.queue.job import Deduplication, NewJob
from homing.queue.memory_entry import Entry, State


@dataclass(slots=True)
class _Stand:
    """The job that counts, and until when; `None` = until it has ended."""

    job_id: JobId
    ends: float | None = None


class MemoryDeduplication:
    """The de-duplication of one queue. `entries` are its jobs, `forget` takes one of them away."""

    def __init__(self, clock: Clock, entries: Mapping[JobId, Entry], forget: Callable[[JobId], None]) -> None:
        self._clock = clock
        self._entries = entries
        self._forget = forget
        self._stands: dict[str, _Stand] = {}
        self._last: dict[str, NewJob] = {}

    def standing(self, same_id: str) -> JobId | None:
        """The job that counts now."""
        stand = self._stands.get(same_id)
        if stand is not None and stand.ends is not None and stand.ends <= self._clock.monotonic():
            del self._stands[same_id]
            return None
        return None if stand is None else stand.job_id

    def admit(self, job: NewJob, same: Deduplication) -> JobId | None:
        """`None`: the job may be added, and counts from now on; otherwise the job that stands for it."""
        standing = self.standing(same.id)
        if standing is None:
            self._stand(same, job.id)
            return None
        entry, stand = self._entries.get(standing), self._stands[same.id]
        if same.replace and entry is not None and entry.state is State.DELAYED:
            self._replace(job, same, stand)
            return None
        if entry is None and stand.ends is None:  # it is gone without an end
            self._last.pop(same.id, None)
            self._stand(same, job.id)
            return None
        if same.keep_last_if_active and entry is not None and entry.state is State.ACTIVE:
            self._last[same.id] = job
            stand.ends = None
        elif same.extend and not same.replace:
            self._stand(same, standing)
        return standing

    def end(self, job: NewJob) -> NewJob | None:
        """A job has ended: the last of those that gave way to it while it ran, which is to be added now and counts."""
        same = job.deduplication
        if same is None:
            return None
        stand = self._stands.get(same.id)
        if stand is not None and stand.ends is None and stand.job_id == job.id:
            del self._stands[same.id]
        last = self._last.pop(same.id, None)
        if last is None:
            return None
        if last.deduplication is not None:
            self._stand(last.deduplication, last.id)
        return replace(last, timestamp_ms=int(self._clock.now().timestamp() * 1000))  # it begins now, as BullMQ has it

    def remove(self, job: NewJob) -> None:
        """Somebody took a job away: it counts no more, and nothing follows it."""
        same = job.deduplication
        if same is not None and self.standing(same.id) == job.id:
            self._last.pop(same.id, None)
            del self._stands[same.id]

    def lift(self, same_id: str) -> bool:
        """Let no job count any more; whether one did."""
        self.standing(same_id)
        return self._stands.pop(same_id, None) is not None

    def _stand(self, same: Deduplication, job_id: JobId) -> None:
        ends = None if same.ttl_seconds is None else self._clock.monotonic() + same.ttl_seconds
        self._stands[same.id] = _Stand(job_id, ends)

    def _replace(self, job: NewJob, same: Deduplication, stand: _Stand) -> None:
        """The time goes on where the first one began it, unless the new one asks for another beginning."""
        self._forget(stand.job_id)
        self._last.pop(same.id, None)
        if same.ttl_seconds is not None and not same.extend:
            stand.job_id = job.id
        else:
            self._stand(same, job.id)
