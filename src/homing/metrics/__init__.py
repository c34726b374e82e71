"""The numbers by which operators see what happens; `declared` is the table of all of them."""

from homing.metrics.declared import METRICS, Metric
from homing.metrics.instruments import Metrics

__all__ = ["METRICS", "Metric", "Metrics"]
