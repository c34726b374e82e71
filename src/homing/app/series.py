"""Series that are there before anything happens: a rule sees the first of a kind only where it saw the zero before."""

from homing.app.application import Homing
from homing.errors import Unauthorized
from homing.metrics import Metrics, declared


def begin_series(app: Homing, metrics: Metrics) -> None:
    """Begin what alert rules look at, for every consumer that code declares, with zero; and tell whose dead letters count one by one."""
    alerts = {queue.name: queue.alert for queue in app.queues}
    for route in app.routes:
        is_each = alerts.get(route.queue) == "each"
        metrics.set(declared.ALERT_EACH, route.consumer, to=float(is_each))
        metrics.count(declared.DEAD_LETTERS, route.consumer, Unauthorized.__name__, by=0)
    for handler in app.handlers:
        metrics.count(declared.LEASES_LOST, handler.queue, handler.job_name, by=0)
        metrics.count(declared.RESCUED, handler.queue, handler.job_name, by=0)
    for one in app.schedules:
        metrics.count(declared.SCHEDULE_MISSED, one.schedule.id, by=0)
