"""The same numbers through OpenTelemetry, for applications that have set up its SDK; without one, nothing is called."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from homing.metrics.declared import Metric

Series = list[tuple[tuple[str, ...], float]]
Collected = Callable[[], Mapping[Metric, Series]]


def nothing_collected() -> Mapping[Metric, Series]:
    """For a process without a collector."""
    return {}


class Mirror(Protocol):
    """Where every number is told a second time."""

    def count(self, metric: Metric, labels: tuple[str, ...], by: float) -> None:
        """Add to a counter."""
        ...

    def set(self, metric: Metric, labels: tuple[str, ...], to: float) -> None:
        """Set a gauge."""
        ...

    def observe(self, metric: Metric, labels: tuple[str, ...], seconds: float) -> None:
        """Put a duration into a histogram."""
        ...


def mirror_of(app: str, metrics: Iterable[Metric], collected: Collected = nothing_collected) -> Mirror | None:
    """A mirror when an OpenTelemetry SDK is set up, otherwise `None`: what nobody exports costs nothing, not even an import.

    `collected` is asked whenever the SDK exports, for the gauges that are collected.
    """
    otel: Any = sys.modules.get("opentelemetry.metrics")  # whoever set up an SDK has imported it
    if otel is None or type(otel.get_meter_provider()).__module__.startswith("opentelemetry.metrics"):
        return None  # the API's own stand-ins: no SDK yet
    return _OpenTelemetry(otel, app, metrics, collected)


class _OpenTelemetry:
    def __init__(self, otel: Any, app: str, metrics: Iterable[Metric], collected: Collected) -> None:
        meter = otel.get_meter("homing")
        self._observation = otel.Observation
        self._app = app
        self._instruments: dict[Metric, Any] = {}
        for metric in metrics:
            if metric.collected:
                self._offer(meter, metric, collected)
            else:
                self._instruments[metric] = _instrument(meter, metric)

    def count(self, metric: Metric, labels: tuple[str, ...], by: float) -> None:
        self._instruments[metric].add(by, self._attributes(metric, labels))

    def set(self, metric: Metric, labels: tuple[str, ...], to: float) -> None:
        self._instruments[metric].set(to, self._attributes(metric, labels))

    def observe(self, metric: Metric, labels: tuple[str, ...], seconds: float) -> None:
        self._instruments[metric].record(seconds, self._attributes(metric, labels))

    def _offer(self, meter: Any, metric: Metric, collected: Collected) -> None:
        def read(_: object) -> list[Any]:
            series = collected().get(metric, [])
            return [self._observation(value, self._attributes(metric, labels)) for labels, value in series]

        meter.create_observable_gauge(metric.otel_name, [read], metric.otel_unit, metric.meaning)

    def _attributes(self, metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
        return {"app": self._app, **dict(zip(metric.labels, labels, strict=True))}


def _instrument(meter: Any, metric: Metric) -> Any:
    if metric.kind == "counter":
        return meter.create_counter(metric.otel_name, unit=metric.otel_unit, description=metric.meaning)
    if metric.kind == "gauge":
        return meter.create_gauge(metric.otel_name, unit=metric.otel_unit, description=metric.meaning)
    return meter.create_histogram(metric.otel_name, unit=metric.otel_unit, description=metric.meaning)
