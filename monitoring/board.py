"""The board: five rows, from "is work flowing" to "what does a process do", as Grafana imports it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from homing.metrics import declared as m
from homing.metrics.declared import Metric

WIDTH, HEIGHT = 8, 7
PER_ROW = 3

APP = '{app=~"$app"}'
"""Every panel shows the apps that are chosen above."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: PromQL, what a line is called, and the unit in Grafana's words."""

    title: str
    expr: str
    legend: str
    unit: str = "short"


def seen(metric: Metric, *by: str) -> str:
    """A collected gauge, which every process tells alike."""
    return f"max by ({', '.join(by)}) ({metric.name}{APP})"


def pace(metric: Metric, *by: str) -> str:
    """A counter, per second."""
    return f"sum by ({', '.join(by)}) (rate({metric.name}{APP}[$__rate_interval]))"


def total(metric: Metric, *by: str) -> str:
    """A gauge of each process, all together."""
    return f"sum by ({', '.join(by)}) ({metric.name}{APP})"


def slowest(metric: Metric, *by: str) -> str:
    """What nineteen of twenty stay below."""
    return f"histogram_quantile(0.95, sum by ({', '.join((*by, 'le'))}) (rate({metric.name}_bucket{APP}[$__rate_interval])))"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Is work flowing?": (
        Panel("Events recorded", pace(m.EVENTS_RECORDED, "topic"), "{{topic}}", "ops"),
        Panel("Events routed", pace(m.EVENTS_ROUTED, "topic"), "{{topic}}", "ops"),
        Panel("Deliveries settled", pace(m.SETTLED, "consumer", "outcome"), "{{consumer}} {{outcome}}", "ops"),
        Panel("Runs", pace(m.JOB_RUNS, "queue", "outcome"), "{{queue}} {{outcome}}", "ops"),
        Panel("Recorded to dispatched, 95 %", slowest(m.RELAY_LAG, "queue"), "{{queue}}", "s"),
        Panel("Recorded to finished, 95 %", slowest(m.JOB_AGE, "queue", "job"), "{{queue}}/{{job}}", "s"),
    ),
    "How old is the oldest?": (
        Panel("Oldest event not routed", seen(m.OLDEST_CLAIMABLE, "topic"), "{{topic}}", "s"),
        Panel("Oldest delivery not settled", seen(m.OLDEST_UNSETTLED, "consumer"), "{{consumer}}", "s"),
        Panel("Oldest job not claimed", seen(m.OLDEST_WAITING, "queue"), "{{queue}}", "s"),
        Panel("Jobs by state", seen(m.QUEUE_JOBS, "queue", "state"), "{{queue}} {{state}}"),
        Panel("Unsettled deliveries", seen(m.UNSETTLED, "consumer"), "{{consumer}}"),
        Panel("Overdue deliveries", seen(m.OVERDUE, "consumer"), "{{consumer}}"),
    ),
    "What is failing?": (
        Panel("Open dead letters", seen(m.OPEN_LETTERS, "consumer"), "{{consumer}}"),
        Panel("Deaths", pace(m.DEAD_LETTERS, "consumer", "error_type"), "{{consumer}} {{error_type}}", "ops"),
        Panel("Redriven", pace(m.REDRIVEN, "consumer", "outcome"), "{{consumer}} {{outcome}}", "ops"),
        Panel("Dispatched again", pace(m.REDISPATCHED, "consumer", "reason"), "{{consumer}} {{reason}}", "ops"),
        Panel("Leases lost", pace(m.LEASES_LOST, "queue", "job"), "{{queue}}/{{job}}", "ops"),
        Panel("Jobs rescued", pace(m.RESCUED, "queue", "job"), "{{queue}}/{{job}}", "ops"),
    ),
    "What is nobody's?": (
        Panel("Unroutable events", seen(m.UNROUTABLE, "topic"), "{{topic}}"),
        Panel("Parked events", seen(m.PARKED_EVENTS, "topic"), "{{topic}}"),
        Panel("Jobs that no handler knows", seen(m.PARKED_JOBS, "queue", "job"), "{{queue}}/{{job}}"),
    ),
    "What do the processes do?": (
        Panel("Slots in use", f"{total(m.RUNNING, 'queue')} / {total(m.SLOTS, 'queue')}", "{{queue}}", "percentunit"),
        Panel("Duration of runs, 95 %", slowest(m.JOB_DURATION, "queue", "job"), "{{queue}}/{{job}}", "s"),
        Panel("Event loop lag, 95 %", slowest(m.LOOP_LAG, "instance"), "{{instance}}", "s"),
        Panel(
            "Servers that answer", f"min by (instance, backend) ({m.BACKEND_UP.name}{APP})", "{{instance}} {{backend}}"
        ),
        Panel("Seconds of asked pauses, per second", pace(m.THROTTLED, "queue"), "{{queue}}"),
        Panel("Rows pruned", pace(m.PRUNED, "table"), "{{table}}", "ops"),
    ),
}


def board_text() -> str:
    """The file."""
    board = {
        "title": "Homing",
        "uid": "homing",
        "tags": ["homing"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_SOURCE, _APPS]},
        "panels": list(_placed()),
    }
    return json.dumps(board, indent=2) + "\n"


_SOURCE = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
_APPS = {
    "name": "app",
    "label": "App",
    "type": "query",
    "datasource": {"type": "prometheus", "uid": "${source}"},
    "query": f"label_values({m.BUILD.name}, app)",
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


def _placed() -> Iterator[dict[str, object]]:
    """Every panel at its place: a title, then rows of three."""
    at, number = 0, 0
    for title, panels in ROWS.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": at, "w": 24, "h": 1},
        }
        at += 1
        for place, panel in enumerate(panels):
            number += 1
            x, y = place % PER_ROW * WIDTH, at + place // PER_ROW * HEIGHT
            yield _graph(number, panel, {"x": x, "y": y, "w": WIDTH, "h": HEIGHT})
        at += -(-len(panels) // PER_ROW) * HEIGHT


def _graph(number: int, panel: Panel, place: dict[str, int]) -> dict[str, object]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.expr, "legendFormat": panel.legend}],
    }
