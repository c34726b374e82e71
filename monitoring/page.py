"""The reference page of all metrics."""

from homing.metrics import METRICS
from homing.metrics.declared import Metric

HEAD = """\
# Metrics

Made by `python -m monitoring` from `homing/metrics/declared.py`. Every worker and relay serves them at `/metrics` (`HOMING_HTTP_ADDRESS`, by default
`127.0.0.1:9464`), in Prometheus's text format; where an OpenTelemetry SDK is set up, the same numbers go through it under the names in the
second table. [How to use the alerts and the board](../howto/alerts.md).

* Every series has the label `app`. Labels are names that code declares, never ids; a job of which no handler here knows the name is `(unknown)`.
* **counted** ones say what this process did since it started: add them up over processes. Counters of what people do at the command line do not exist;
  `homing actions list` has that.
* **collected** ones are read from the ledger and Redis every four seconds, by every process alike: take the `max`. They are absent when
  the last look is older than 15 seconds, so that nobody takes old numbers for new.
* `homing_events_recorded_total` is counted where `record` was called: inside a run by its worker; in a web process in prometheus_client's
  default registry, which the application's own `/metrics` shows, with `OTEL_SERVICE_NAME` as `app`, or `(unnamed)`.
* Scrape with `honor_labels: true`: Prometheus's own label `job` would rename ours to `exported_job`.

"""


def page_text() -> str:
    """The file."""
    return HEAD + _first_table() + "\n## In OpenTelemetry, and buckets\n\n" + _second_table()


def _first_table() -> str:
    rows = [f"| `{x.name}` | {x.kind}, {_where(x)} | {_names(x.labels)} | {x.meaning} |" for x in METRICS]
    return "\n".join(["| name | kind | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _second_table() -> str:
    rows = [
        f"| `{x.otel_name}` | {x.otel_unit} | {', '.join(f'{bound:g}' for bound in x.buckets) or '–'} |"
        for x in METRICS
    ]
    return "\n".join(["| name | unit | bounds of the buckets, in seconds |", "|---|---|---|", *rows]) + "\n"


def _where(metric: Metric) -> str:
    return "collected" if metric.collected else "counted"


def _names(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "–"
