"""The alerts: when somebody should look, how soon, and what to do then."""

from dataclasses import dataclass
from typing import Literal

from homing.metrics import declared as m
from homing.metrics.declared import Metric

Severity = Literal["page", "ticket"]
"""`page`: wake somebody. `ticket`: look at it today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule. `expr` is PromQL, and what it yields names who is concerned; `wait`: how long it must hold, as Prometheus writes it."""

    name: str
    expr: str
    wait: str
    severity: Severity
    summary: str
    remedy: str


def seen(metric: Metric, *by: str, offset: str = "") -> str:
    """A collected gauge: every process that collects tells the same number, so the largest is it."""
    return f"max by ({', '.join(('app', *by))}) ({metric.name}{offset})"


def lowest(metric: Metric, *by: str, where: str = "") -> str:
    """The worst of a gauge whose smallest value is the bad one, for each process."""
    return f"min by ({', '.join(('app', 'instance', *by))}) ({metric.name}{where})"


def grown(metric: Metric, window: str, *by: str, where: str = "") -> str:
    """How much a counter grew, all processes together."""
    return f"sum by ({', '.join(('app', *by))}) (increase({metric.name}{where}[{window}]))"


UNAUTHORIZED = '{error_type="Unauthorized"}'

NOT_PRUNE = '{loop!="prune"}'
"""Pruning rests for ten minutes by right; every other loop turns within seconds."""

EACH = f"max by (app, consumer) ({m.ALERT_EACH.name})"

DEAD = (
    Alert(
        name="HomingDeadLetter",
        expr=f"{seen(m.OPEN_LETTERS, 'consumer')} > 0 and on (app, consumer) {EACH} == 1",
        wait="0s",
        severity="page",
        summary="{{ $labels.consumer }}: {{ $value }} dead letters, and its queue says that each of them counts",
        remedy="homing deadletters list --consumer {{ $labels.consumer }}; mend the cause, then homing redrive, or dismiss what must not run.",
    ),
    Alert(
        name="HomingDeadLettersGrow",
        expr=(
            f"{seen(m.OPEN_LETTERS, 'consumer')} - {seen(m.OPEN_LETTERS, 'consumer', offset=' offset 1h')} > 10"
            f" unless on (app, consumer) {EACH} == 1"
        ),
        wait="5m",
        severity="ticket",
        summary="{{ $labels.consumer }}: {{ $value }} more dead letters than an hour ago",
        remedy="homing deadletters groups says what they die of. One cause: mend it and redrive them together, with --canary.",
    ),
    Alert(
        name="HomingUnauthorized",
        expr=f"{grown(m.DEAD_LETTERS, '15m', 'consumer', where=UNAUTHORIZED)} > 3",
        wait="0s",
        severity="page",
        summary="{{ $labels.consumer }}: the other side refuses our credentials, everything sent to it dies",
        remedy="Renew the credentials; pause the queue meanwhile (homing queues pause); then homing redrive --error-class Unauthorized.",
    ),
)

WAITING = (
    Alert(
        name="HomingOutboxOld",
        expr=f"{seen(m.OLDEST_CLAIMABLE, 'topic')} > 60",
        wait="1m",
        severity="page",
        summary="{{ $labels.topic }}: an event waits to be routed since {{ $value | humanizeDuration }}",
        remedy="homing status says why: no relay, Redis away, or a backlog that moves. Nothing is lost while it waits.",
    ),
    Alert(
        name="HomingUnroutable",
        expr=f"{seen(m.UNROUTABLE, 'topic')} > 0",
        wait="2m",
        severity="ticket",
        summary="{{ $labels.topic }}: {{ $value }} events that nobody subscribes to",
        remedy="Deploy the workers that consume the topic (workers go before the code that records); the events wait for them.",
    ),
    Alert(
        name="HomingParkedEvents",
        expr=f"{seen(m.PARKED_EVENTS, 'topic')} > 0",
        wait="2m",
        severity="ticket",
        summary="{{ $labels.topic }}: {{ $value }} events of which no job can be made",
        remedy="homing events list --state parked shows the errors; mend the rows, then homing events release.",
    ),
    Alert(
        name="HomingOverdue",
        expr=f"{seen(m.OVERDUE, 'consumer')} > 0",
        wait="5m",
        severity="page",
        summary="{{ $labels.consumer }}: {{ $value }} unsettled deliveries are not looked at in time",
        remedy="The sweep stands still or lags: is a relay running (homing workers list), is Redis there, is look_rate too low after a flush?",
    ),
    Alert(
        name="HomingQueueWaits",
        expr=(f"{seen(m.OLDEST_WAITING, 'queue')} > 600 unless on (app, queue) {seen(m.PAUSED, 'queue')} == 1"),
        wait="5m",
        severity="ticket",
        summary="{{ $labels.queue }}: the next job waits since {{ $value | humanizeDuration }}",
        remedy="Are there workers for the queue (homing workers list)? Are all slots taken by slow runs (homing top)? Add workers, or find the slow call.",
    ),
    Alert(
        name="HomingQueuePaused",
        expr=f"{seen(m.PAUSED, 'queue')} == 1",
        wait="1h",
        severity="ticket",
        summary="{{ $labels.queue }} is paused for an hour",
        remedy="homing actions list says who paused it and why; homing queues resume {{ $labels.queue }}.",
    ),
    Alert(
        name="HomingJobsParked",
        expr=f"max by (app, queue, job) ({m.PARKED_JOBS.name}) > 0",
        wait="10m",
        severity="ticket",
        summary="{{ $labels.queue }}: {{ $value }} jobs {{ $labels.job }} that no worker knows",
        remedy="Deploy the code with the handler, or find who adds jobs of this name; they run as soon as a worker knows them.",
    ),
    Alert(
        name="HomingTicksMissed",
        expr=f"{grown(m.SCHEDULE_MISSED, '1h', 'schedule')} > 0",
        wait="0s",
        severity="ticket",
        summary="{{ $labels.schedule }}: {{ $value }} ticks of the schedule were missed within an hour",
        remedy="No worker claimed its ticks in time; the last one ran late. homing schedules list, then homing schedules run {{ $labels.schedule }} where one more is needed.",
    ),
)

WORKING = (
    Alert(
        name="HomingLeasesLost",
        expr=f"{grown(m.LEASES_LOST, '15m', 'queue', 'job')} > 3",
        wait="0s",
        severity="ticket",
        summary="{{ $labels.queue }}/{{ $labels.job }}: {{ $value }} runs lost their lease within 15 minutes",
        remedy="A worker could not renew for a whole lease: a starved machine, a frozen process, or Redis that was away. Handlers may have run twice at once.",
    ),
    Alert(
        name="HomingJobsRescued",
        expr=f"{grown(m.RESCUED, '15m', 'queue', 'job')} > 0",
        wait="0s",
        severity="ticket",
        summary="{{ $labels.queue }}/{{ $labels.job }}: {{ $value }} jobs lost their worker and were run again",
        remedy="A worker was killed. Was it out of memory? The same job each time is a suspect: it runs alone after three times.",
    ),
    Alert(
        name="HomingHandlerStuck",
        expr=f"sum by (app, instance, queue, job) ({m.STUCK.name}) > 0",
        wait="5m",
        severity="ticket",
        summary="{{ $labels.queue }}/{{ $labels.job }}: {{ $value }} handlers ignore that they were told to end",
        remedy="The log has their stacks. A call without a time-out is the usual reason; restart the worker to get rid of them.",
    ),
    Alert(
        name="HomingEventLoopLag",
        expr=(f"histogram_quantile(0.9, sum by (app, instance, le) (rate({m.LOOP_LAG.name}_bucket[5m]))) > 0.5"),
        wait="10m",
        severity="ticket",
        summary="{{ $labels.instance }}: the event loop is late by {{ $value | humanizeDuration }}",
        remedy="A handler blocks it: make it a plain def (a thread) or cpu=True (a child). homing_job_duration_seconds says which is slow.",
    ),
)

STANDING = (
    Alert(
        name="HomingBackendDown",
        expr=f"{lowest(m.BACKEND_UP, 'backend')} == 0",
        wait="1m",
        severity="page",
        summary="{{ $labels.instance }}: {{ $labels.backend }} does not answer",
        remedy="Bring it back; nothing else is to be done: work goes on by itself, and what Redis lost is dispatched again. homing doctor looks closer.",
    ),
    Alert(
        name="HomingListenerDown",
        expr=f"{lowest(m.LISTENER_UP)} == 0",
        wait="5m",
        severity="ticket",
        summary="{{ $labels.instance }}: the relay hears no notifications and only polls",
        remedy="A pooler in transaction mode cannot LISTEN: set HOMING_LISTEN_DATABASE_URL past it. Until then events go every half second.",
    ),
    Alert(
        name="HomingNoRelay",
        expr=f"count by (app) ({m.BUILD.name}) unless on (app) count by (app) ({m.LISTENER_UP.name})",
        wait="2m",
        severity="page",
        summary="{{ $labels.app }}: no relay is running, so nothing leaves the outbox",
        remedy="Start homing relay, or a worker without --no-relay. Nothing is lost meanwhile.",
    ),
    Alert(
        name="HomingLoopStuck",
        expr=f"time() - {lowest(m.LAST_TICK, 'loop', where=NOT_PRUNE)} > 180",
        wait="0s",
        severity="page",
        summary="{{ $labels.instance }}: the loop {{ $labels.loop }} has not turned for {{ $value | humanizeDuration }}",
        remedy="The process ends itself with 76 when it is stuck; if it still lives, take its stacks from the log and kill it.",
    ),
    Alert(
        name="HomingBlind",
        expr=f"count by (app) ({m.BUILD.name}) unless on (app) count by (app) ({m.UNSETTLED.name})",
        wait="2m",
        severity="page",
        summary="{{ $labels.app }}: no process can look at the ledger, so most other alerts are silent",
        remedy="Ask /verdict of a worker or relay (port 9464) why; most often PostgreSQL is away or slow.",
    ),
)

GROUPS: dict[str, tuple[Alert, ...]] = {
    "homing-dead": DEAD,
    "homing-waiting": WAITING,
    "homing-working": WORKING,
    "homing-standing": STANDING,
}
"""All alerts, in the order of the page."""
