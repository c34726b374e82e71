"""What a process counts: Prometheus instruments in a registry of its own, mirrored to OpenTelemetry where an SDK is set up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from homing.metrics.bounded import Bounded
from homing.metrics.declared import METRICS, Across, Metric
from homing.metrics.mirror import Collected, Mirror, mirror_of, nothing_collected
from homing.metrics.pending import PendingCounter, PendingHistogram

LONGEST_LABEL = 200
"""Characters of a label's value that are kept."""

MOST_ERROR_TYPES = 50
"""Classes of errors that one process tells apart: code may make any number of them."""

Child = Counter | Gauge | Histogram


class Metrics:
    """The instruments of one app in one process; every series carries the app's name.

    Counting never fails and never waits. What was counted shows as soon as the registry is read, and in the files that several processes
    share when it is flushed. `families`: those that are counted here, all by default. Labels are given in the order in which the metric declares them.
    """

    def __init__(
        self, app: str, registry: CollectorRegistry | None = None, *, families: Sequence[Metric] = METRICS
    ) -> None:
        self.app = app
        self.collected: Collected = nothing_collected
        """What OpenTelemetry reads of the metrics that are collected, from its own thread."""
        self.registry = registry or CollectorRegistry()
        self.error_types = Bounded(MOST_ERROR_TYPES)
        """The names of errors that this process tells apart."""
        self._mirrored = families
        self.registry.register(_BeforeReading(self))
        self._pending: dict[tuple[Metric, tuple[str, ...]], PendingCounter | PendingHistogram] = {}
        self._families = {metric: _family(metric, self.registry) for metric in families if not metric.collected}
        self._children: dict[tuple[Metric, tuple[str, ...]], MetricWrapperBase] = {}
        self._mirror: Mirror | None = None
        self.find_mirror()

    def find_mirror(self) -> None:
        """Mirror from now on to the OpenTelemetry SDK that somebody set up meanwhile; a loop asks, so that the order does not matter."""
        if self._mirror is None:
            self._mirror = mirror_of(self.app, self._mirrored, lambda: self.collected())  # noqa: PLW0108 - it may be set later

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""
        self._add(metric, labels, by)
        if self._mirror is not None:
            self._mirror.count(metric, labels, by)

    def set(self, metric: Metric, *labels: str, to: float) -> None:
        """Set a gauge."""
        self._child(metric, labels).set(to)  # type: ignore[attr-defined]  # a gauge, by its declaration
        if self._mirror is not None:
            self._mirror.set(metric, labels, to)

    def observe(self, metric: Metric, *labels: str, seconds: float) -> None:
        """Put a duration into a histogram."""
        self._add(metric, labels, seconds)
        if self._mirror is not None:
            self._mirror.observe(metric, labels, seconds)

    def observe_all(self, metric: Metric, *labels: str, seconds: Sequence[float]) -> None:
        """Put several durations into a histogram."""
        if not seconds:
            return
        self._add_all(metric, labels, seconds)
        if self._mirror is not None:
            for each in seconds:
                self._mirror.observe(metric, labels, each)

    def replace(self, metric: Metric, series: Mapping[tuple[str, ...], float]) -> None:
        """Set a gauge to what is true now: series that were set before and are not among these become 0."""
        before = {labels for known, labels in self._children if known is metric}
        for labels in before - series.keys():
            self.set(metric, *labels, to=0)
        for labels, value in series.items():
            self.set(metric, *labels, to=value)

    def flush(self) -> None:
        """Put everything that was counted where it is read."""
        for pending in tuple(self._pending.values()):
            pending.flush()

    def _add(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        self._add_all(metric, labels, (value,))

    def _add_all(self, metric: Metric, labels: tuple[str, ...], values: Sequence[float]) -> None:
        pending = self._pending.get((metric, labels))
        if pending is None:
            child = self._child(metric, labels)
            made = PendingHistogram(child) if isinstance(child, Histogram) else PendingCounter(cast("Counter", child))
            pending = self._pending.setdefault((metric, labels), made)
        pending.add_all(values)
        if pending.is_full():
            pending.flush()

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> MetricWrapperBase:
        child = self._children.get((metric, labels))
        if child is None:
            child = self._families[metric].labels(self.app, *map(_label, labels))
            self._children[metric, labels] = child
        return child


class _BeforeReading(Collector):
    """The first of a registry's collectors: whoever reads the registry reads what was counted until then."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Family]:
        self._metrics.flush()
        return ()

    def describe(self) -> Iterable[Family]:
        return ()


def _label(value: str) -> str:
    """A label that any scrape can carry, whatever somebody called a job: valid UTF-8, and not long."""
    return value[:LONGEST_LABEL].encode("utf-8", "replace").decode()


def label_names(metric: Metric) -> tuple[str, ...]:
    """The labels of its series, `app` first."""
    return ("app", *metric.labels)


_MODES: Mapping[Across, Literal["livesum", "livemin", "livemax"]] = {
    "sum": "livesum",
    "min": "livemin",
    "max": "livemax",
}


def _family(metric: Metric, registry: CollectorRegistry) -> MetricWrapperBase:
    labels: Iterable[str] = label_names(metric)
    if metric.kind == "counter":
        return Counter(metric.name, metric.meaning, labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(metric.name, metric.meaning, labels, registry=registry, multiprocess_mode=_MODES[metric.across])
    return Histogram(metric.name, metric.meaning, labels, registry=registry, buckets=metric.buckets)
