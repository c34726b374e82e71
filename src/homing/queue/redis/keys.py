"""The names of a queue's keys, as BullMQ lays them out: `<prefix>:<queue>:<part>`, jobs beside the parts."""

from dataclasses import dataclass
from functools import cached_property

from homing.errors import ConfigurationError
from homing.ids import JobId
from homing.queue.parent import JobRef


@dataclass(frozen=True)
class QueueKeys:
    """The keys of one queue, and the KEYS of each script in the order it reads them."""

    prefix: str
    queue: str

    def __post_init__(self) -> None:
        if not self.queue or ":" in self.queue:
            raise ConfigurationError(f"a queue name is not empty and has no colon, unlike {self.queue!r}")

    @cached_property
    def base(self) -> str:
        """What every key of the queue starts with, the colon included."""
        return f"{self.prefix}:{self.queue}:"

    @property
    def whole(self) -> str:
        """The queue as the jobs of other queues name it: `<prefix>:<queue>`."""
        return self.base[:-1]

    def part(self, name: str) -> str:
        """The key of one structure, such as `wait`, or of a job, by its id."""
        return self.base + name

    def lock(self, job_id: str) -> str:
        """The key that holds the token of a job's lease."""
        return f"{self.base}{job_id}:lock"

    def logs(self, job_id: str) -> str:
        """The list of a job's log lines."""
        return f"{self.base}{job_id}:logs"

    def progress(self, job_id: str) -> tuple[str, ...]:
        """KEYS of updateProgress for one job."""
        return (self.part(job_id), *self._parts("events meta"))

    def deduplication(self, same_id: str) -> str:
        """The key that names the job which counts for a de-duplication id."""
        return f"{self.base}de:{same_id}"

    def ref(self, key: bytes) -> JobRef:
        """The job that has this key, as members of a family name it; one of another prefix keeps its whole key."""
        text = key.decode(errors="replace")
        queue, colon, job_id = text.removeprefix(f"{self.prefix}:").partition(":")
        is_ours = text.startswith(f"{self.prefix}:") and colon and queue
        return JobRef(queue, JobId(job_id)) if is_ours else JobRef("", JobId(text))

    def _parts(self, names: str) -> tuple[str, ...]:
        return tuple(map(self.part, names.split()))

    @cached_property
    def marker(self) -> str:
        """The sorted set that wakes waiting workers."""
        return self.part("marker")

    @cached_property
    def meta(self) -> str:
        """The hash of the queue's settings."""
        return self.part("meta")

    @cached_property
    def limiter(self) -> str:
        """The counter of starts, which lives as long as the limit's window."""
        return self.part("limiter")

    def pause(self, *, paused: bool) -> tuple[str, ...]:
        """KEYS of pause: it moves what an older BullMQ kept apart while a queue was paused."""
        return self._parts(f"{'wait paused' if paused else 'paused wait'} meta prioritized events delayed marker")

    @cached_property
    def delayed(self) -> str:
        """The sorted set of delayed jobs."""
        return self.part("delayed")

    @cached_property
    def parked_kinds(self) -> str:
        """Ours: the kinds of parked jobs. No job's key is like it, since no id has a colon."""
        return self.part("homing:parked")

    def parked_jobs(self, label: str) -> str:
        """Ours: the parked jobs of a kind."""
        return f"{self.parked_kinds}:{label}"

    @cached_property
    def promote(self) -> tuple[str, ...]:
        """KEYS of promote."""
        return self._parts("delayed wait paused meta prioritized active pc events marker")

    @cached_property
    def add_standard(self) -> tuple[str, ...]:
        """KEYS of addStandardJob."""
        return self._parts("wait paused meta id completed delayed active events marker")

    @cached_property
    def add_delayed(self) -> tuple[str, ...]:
        """KEYS of addDelayedJob."""
        return self._parts("marker meta id delayed completed events")

    @cached_property
    def add_prioritized(self) -> tuple[str, ...]:
        """KEYS of addPrioritizedJob."""
        return self._parts("marker meta id prioritized delayed completed active events pc")

    @cached_property
    def add_parent(self) -> tuple[str, ...]:
        """KEYS of addParentJob."""
        return self._parts("meta id delayed waiting-children completed events")

    @cached_property
    def move_to_active(self) -> tuple[str, ...]:
        """KEYS of moveToActive."""
        return self._parts("wait active prioritized events stalled limiter delayed paused meta pc marker")

    @cached_property
    def finish_and_claim(self) -> tuple[str, ...]:
        """KEYS of our finishAndClaim."""
        return self._parts("wait active prioritized events stalled limiter delayed meta pc completed marker")

    @cached_property
    def move_stalled(self) -> tuple[str, ...]:
        """KEYS of moveStalledJobsToWait."""
        return self._parts("stalled wait active stalled-check meta paused marker events repeat")

    @cached_property
    def _before_target(self) -> tuple[str, ...]:
        return self._parts("wait active prioritized events stalled limiter delayed paused meta pc")

    def move_to_finished(self, target: str, job_id: str) -> tuple[str, ...]:
        """KEYS of moveToFinished for one job; `target` is `completed` or `failed`."""
        return (
            *self._before_target,
            self.part(target),
            self.part(job_id),
            self.part("metrics:" + target),
            self.marker,
        )

    @cached_property
    def _around_delayed_job(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._parts("marker active prioritized delayed"), self._parts("events meta stalled wait limiter pc")

    def move_to_delayed(self, job_id: str) -> tuple[str, ...]:
        """KEYS of moveToDelayed for one job."""
        before, after = self._around_delayed_job
        return (*before, self.part(job_id), *after)

    def move_to_waiting_children(self, job_id: str) -> tuple[str, ...]:
        """KEYS of moveToWaitingChildren for one job."""
        job = self.part(job_id)
        return (
            *self._parts("active waiting-children"),
            job,
            f"{job}:dependencies",
            f"{job}:unsuccessful",
            *self._parts("stalled events"),
        )

    @cached_property
    def _around_retried_job(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._parts("active wait paused"), self._parts("meta events delayed prioritized pc marker stalled")

    def retry(self, job_id: str) -> tuple[str, ...]:
        """KEYS of retryJob for one job."""
        before, after = self._around_retried_job
        return (*before, self.part(job_id), *after)

    @cached_property
    def move_to_wait(self) -> tuple[str, ...]:
        """KEYS of moveJobFromActiveToWait."""
        return self._parts("active wait stalled paused meta limiter prioritized marker events")

    def extend_lock(self, job_id: str) -> tuple[str, ...]:
        """KEYS of extendLock for one job."""
        return (self.lock(job_id), self.part("stalled"))

    @cached_property
    def repeat(self) -> str:
        """The sorted set of schedules, by their next ticks."""
        return self.part("repeat")

    def scheduler(self, schedule_id: str) -> str:
        """The hash of a schedule."""
        return f"{self.repeat}:{schedule_id}"

    @cached_property
    def add_scheduler(self) -> tuple[str, ...]:
        """KEYS of addJobScheduler."""
        return self._parts("repeat delayed wait paused meta prioritized marker id events pc active")

    def update_scheduler(self, tick_id: str) -> tuple[str, ...]:
        """KEYS of updateJobScheduler for the tick that is followed by another."""
        before = self._parts("repeat delayed wait paused meta prioritized marker id events pc")
        return (*before, self.part(tick_id), self.part("active"))

    @cached_property
    def remove_scheduler(self) -> tuple[str, ...]:
        """KEYS of removeJobScheduler."""
        return self._parts("repeat delayed events")

    def reprocess(self, job_id: str) -> tuple[str, ...]:
        """KEYS of reprocessJob for one job that failed."""
        return (self.part(job_id), *self._parts("events failed wait meta active marker prioritized pc"))

    def clean(self, part: str) -> tuple[str, ...]:
        """KEYS of cleanJobsInSet for one of the queue's structures."""
        return self._parts(f"{part} events repeat")

    @cached_property
    def obliterate(self) -> tuple[str, ...]:
        """KEYS of obliterate; the second is what all keys start with."""
        return (self.meta, self.base)

    def remove(self, job_id: str) -> tuple[str, ...]:
        """KEYS of removeJob for one job."""
        return (self.part(job_id), self.part("repeat"))
