"""Every metric that Homing exports: the one table that instruments, the reference page and the alert rules are checked against."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Across = Literal["sum", "min", "max"]

RUN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bucket bounds of how long something ran."""

AGE_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
"""Bucket bounds of how old something was."""

LAG_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Bucket bounds of how late a loop's turn came."""


@dataclass(frozen=True, slots=True, eq=False)  # one object each: compared and hashed by identity, on every count
class Metric:
    """One family of series. `labels` come besides `app`, which every series has. A counter's name ends with `_total`.

    `collected`: read from the ledger and the engine by each process that holds the collector, so rules take the `max` over processes;
    every other one is counted in the process that did the work, so rules take the `sum`. `across`: how a gauge is told for several
    worker processes behind one endpoint.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()
    collected: bool = False
    across: Across = "sum"

    @property
    def otel_name(self) -> str:
        """The name in OpenTelemetry: dots, and the unit apart."""
        return self.name.removesuffix("_total").removesuffix("_seconds").replace("_", ".")

    @property
    def otel_unit(self) -> str:
        """The unit in OpenTelemetry, by UCUM."""
        return "s" if "_seconds" in self.name else "1"


def _counter(name: str, *labels: str, means: str) -> Metric:
    return Metric(f"homing_{name}_total", "counter", labels, means)


def _gauge(name: str, *labels: str, means: str, collected: bool = False, across: Across = "sum") -> Metric:
    return Metric(f"homing_{name}", "gauge", labels, means, collected=collected, across=across)


def _histogram(name: str, *labels: str, means: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(f"homing_{name}", "histogram", labels, means, buckets)


EVENTS_RECORDED = _counter(
    "events_recorded", "topic", means="Events written to the outbox, committed or not, by this process."
)
EVENTS_ROUTED = _counter("events_routed", "topic", means="Events whose deliveries were opened.")
RELAY_DISPATCHED = _counter(
    "relay_dispatched_jobs", "queue", "outcome", means="Jobs handed to the engine: `added` or `failed`."
)
RELAY_LAG = _histogram(
    "relay_lag_seconds", "queue", means="From recorded, or due, to dispatched for the first time.", buckets=AGE_SECONDS
)
LISTENER_UP = _gauge(
    "relay_listener_up", means="1 while notifications arrive, 0 while the relay only polls.", across="min"
)
BACKEND_UP = _gauge("backend_up", "backend", means="1 while the server answers this process.", across="min")
RECONNECTS = _counter("backend_reconnects", "backend", means="Times a server answered again after it had not.")
SETTLED = _counter(
    "deliveries_settled", "consumer", "outcome", means="Deliveries that workers and relays settled: `done` or `dead`."
)
DUPLICATES = _counter("deliveries_duplicate", "consumer", means="Runs that were not needed: the delivery was done.")
REDISPATCHED = _counter(
    "deliveries_redispatched", "consumer", "reason", means="Deliveries given a job again, by what was found."
)
THROTTLED = _counter(
    "queue_throttled_seconds", "queue", means="Seconds of pause that handlers asked for with `Throttled`."
)
PARKED_JOBS = _gauge("jobs_parked", "queue", "job", means="Jobs of names that no handler here knows.", across="max")
JOB_RUNS = _counter(
    "job_runs",
    "queue",
    "job",
    "outcome",
    means="Runs, by what they came to; `(unknown)` is the job of every name that no handler here knows.",
)
JOB_DURATION = _histogram(
    "job_duration_seconds", "queue", "job", means="From start to end of a run.", buckets=RUN_SECONDS
)
JOB_WAIT = _histogram(
    "job_wait_seconds",
    "queue",
    "job",
    means="From opened to the first start that counts, of deliveries.",
    buckets=AGE_SECONDS,
)
JOB_AGE = _histogram("job_age_seconds", "queue", "job", means="From recorded to finished.", buckets=AGE_SECONDS)
RUNNING = _gauge("worker_running_jobs", "queue", means="Jobs that run now.")
SLOTS = _gauge("worker_slots", "queue", means="Jobs that may run at once.")
LEASES_LOST = _counter(
    "leases_lost", "queue", "job", means="Runs that ended without their lease: another run may have begun."
)
RESCUED = _counter("jobs_rescued", "queue", "job", means="Jobs whose worker was gone and that wait again.")
SCHEDULE_FIRED = _gauge(
    "schedule_last_fire_timestamp_seconds",
    "schedule",
    means="The time for which the last tick ran, of schedules in code.",
    across="max",
)
SCHEDULE_MISSED = _counter(
    "schedule_missed", "schedule", means="Ticks whose time passed before the tick before them was claimed."
)
STUCK = _gauge("jobs_stuck", "queue", "job", means="Handlers that ignore being told to end.")
DEAD_LETTERS = _counter(
    "dead_letters",
    "consumer",
    "error_type",
    means="Deaths of deliveries; `(other)` is the type of every error after the first 50 of a process.",
)
ALERT_EACH = _gauge(
    "dead_letters_alert_each",
    "consumer",
    means='1 where the queue says `alert="each"`: every dead letter is worth waking somebody; 0 where growth is.',
    across="max",
)
REDRIVEN = _counter(
    "redriven", "consumer", "outcome", means="Dead letters asked to run again: `redriven` or `refused`."
)
LOOP_LAG = _histogram("event_loop_lag_seconds", means="How late the event loop's turns came.", buckets=LAG_SECONDS)
LAST_TICK = _gauge(
    "loop_last_tick_timestamp_seconds",
    "loop",
    means="When a background loop turned last, Unix time.",
    across="min",
)
PRUNED = _counter("pruned_rows", "table", means="Rows that left after their retention.")
BUILD = _gauge("build_info", "version", "python", "engine", means="1; its labels say what runs here.", across="max")

OLDEST_CLAIMABLE = _gauge(
    "outbox_oldest_claimable_seconds",
    "topic",
    means="Age of the oldest event that could be routed now.",
    collected=True,
)
CLAIMABLE = _gauge("outbox_claimable_events", "topic", means="Events that could be routed now.", collected=True)
SCHEDULED = _gauge("outbox_scheduled_events", "topic", means="Events whose time has not come.", collected=True)
UNROUTABLE = _gauge("outbox_unroutable_events", "topic", means="Events that nobody subscribes to.", collected=True)
PARKED_EVENTS = _gauge("outbox_parked_events", "topic", means="Events set aside with an error.", collected=True)
UNSETTLED = _gauge("deliveries_unsettled", "consumer", means="Deliveries not done, dead or cancelled.", collected=True)
OVERDUE = _gauge("deliveries_overdue", "consumer", means="Unsettled deliveries whose look is late.", collected=True)
OLDEST_UNSETTLED = _gauge(
    "deliveries_oldest_unsettled_seconds", "consumer", means="Age of the oldest unsettled delivery.", collected=True
)
QUEUE_JOBS = _gauge("queue_jobs", "queue", "state", means="Jobs in the engine, by state.", collected=True)
OLDEST_WAITING = _gauge(
    "queue_oldest_waiting_seconds", "queue", means="Age of the job that is next in line.", collected=True
)
PAUSED = _gauge("queue_paused", "queue", means="1 while the queue is paused.", collected=True)
OPEN_LETTERS = _gauge("dead_letters_open", "consumer", means="Dead letters that nobody dealt with.", collected=True)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them, in the order of the reference page."""
