"""What a run adds to the numbers of its process, once, at its end."""

from collections import defaultdict
from collections.abc import Sequence

from homing.clock import Clock
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics, declared
from homing.metrics.bounded import UNKNOWN
from homing.queue.job import ClaimedJob
from homing.queue.outcome import (
    Completed,
    Dead,
    GivenBack,
    HeldBack,
    KeyPaused,
    Outcome,
    Parked,
    Paused,
    Postponed,
    Waiting,
    outcome_name,
)
from homing.queue.port import Finished, Held
from homing.worker.opening import Unreadable
from homing.worker.run import Run
from homing.worker.slot import Plain


class RunCounter:
    """Counts runs. Labels are names that code declared: a job that no handler here knows has none of its own."""

    def __init__(self, metrics: Metrics, clock: Clock, ledger: Ledger) -> None:
        self.metrics = metrics
        self._clock = clock
        self._ledger = ledger

    def count(
        self, job: ClaimedJob, opened: Run | Parked | Unreadable, outcome: Outcome, finished: Finished, seconds: float
    ) -> None:
        """Count one run that took `seconds`, its end in the engine included."""
        queue, name = job.lease.queue, job_label(opened)
        self.metrics.count(declared.JOB_RUNS, queue, name, outcome_name(outcome))
        if finished.held is Held.TAKEN:  # which it is for every `LeaseLost` too
            self.metrics.count(declared.LEASES_LOST, queue, name)
        if pause_seconds := asked_pause_seconds(outcome):
            self.metrics.count(declared.THROTTLED, queue, by=pause_seconds)
        if isinstance(opened, Run) and not isinstance(outcome, HeldBack):
            self._count_run(opened, outcome, queue, name, seconds)

    def count_completed(self, done: Sequence[Plain], now: float) -> None:
        """Count runs that completed together, now (monotonic): series by series."""
        by_handler: dict[tuple[str, str, str], list[Plain]] = defaultdict(list)
        for each in done:
            run = each.run
            by_handler[run.job.lease.queue, run.handler.job_name, run.consumer].append(each)
        for (queue, name, consumer), group in by_handler.items():
            self.metrics.count(declared.JOB_RUNS, queue, name, "completed", by=len(group))
            self.metrics.count(declared.SETTLED, consumer, "done", by=len(group))
            if lost := sum(each.finished.held is Held.TAKEN for each in group):
                self.metrics.count(declared.LEASES_LOST, queue, name, by=lost)
            self._observe(queue, name, group, now)

    def _observe(self, queue: str, name: str, group: Sequence[Plain], now: float) -> None:
        wall = self._clock.now().timestamp()
        began = wall - now + self._ledger.clock_offset_seconds
        durations = [now - each.slot.started for each in group]
        ages = [max(0.0, wall - each.run.job.timestamp_ms / 1000) for each in group]
        waits = [
            max(0.0, began + each.slot.started - each.run.envelope.opened_at.timestamp())
            for each in group
            if each.run.envelope.opened_at is not None and each.run.job.starts == 1
        ]
        for metric, values in (
            (declared.JOB_DURATION, durations),
            (declared.JOB_AGE, ages),
            (declared.JOB_WAIT, waits),
        ):
            self.metrics.observe_all(metric, queue, name, seconds=values)

    def _count_run(self, run: Run, outcome: Outcome, queue: str, name: str, seconds: float) -> None:
        now_seconds, job = self._clock.now().timestamp(), run.job
        self.metrics.observe(declared.JOB_DURATION, queue, name, seconds=seconds)
        opened_at = run.envelope.opened_at
        if opened_at is not None and job.starts == 1 and not is_refunded(outcome):
            waited_seconds = now_seconds - seconds + self._ledger.clock_offset_seconds - opened_at.timestamp()
            self.metrics.observe(declared.JOB_WAIT, queue, name, seconds=max(0.0, waited_seconds))
        match outcome:
            case Completed(how="completed"):
                self.metrics.count(declared.SETTLED, run.consumer, "done")
            case Completed(how="duplicate") | Dead(how="duplicate"):
                self.metrics.count(declared.DUPLICATES, run.consumer)
                return
            case Dead():
                pass  # its death is counted with its letter
            case _:
                return
        age_seconds = now_seconds - job.timestamp_ms / 1000
        self.metrics.observe(declared.JOB_AGE, queue, name, seconds=max(0.0, age_seconds))


def is_refunded(outcome: Outcome) -> bool:
    """Whether the run was no start: the next one is the first again."""
    match outcome:
        case Completed():  # most are, and a run is counted often
            return False
        case Postponed(how=how):
            return how != "snoozed"
        case Paused() | KeyPaused() | GivenBack() | Waiting():
            return True
        case _:
            return False


def job_label(opened: Run | Parked | Unreadable) -> str:
    """The name of the handler, whatever its producer called the job."""
    return UNKNOWN if isinstance(opened, Parked) else opened.case.handler.job_name


def asked_pause_seconds(outcome: Outcome) -> float:
    """The pause that a handler asked for; 0 where it asked for none."""
    match outcome:
        case Completed():
            return 0.0
        case Paused(delay_seconds=seconds) | KeyPaused(delay_seconds=seconds):
            return seconds
        case Postponed(delay_seconds=seconds, how="throttled"):
            return seconds
        case _:
            return 0.0
