"""Recorded events are counted where an operator looks: by the worker in whose run they are recorded, else beside the web app's own numbers."""

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable
from contextvars import ContextVar

from prometheus_client import REGISTRY

from homing.metrics import Metrics, declared

log = logging.getLogger("homing.outbox")

UNNAMED = "(unnamed)"
"""The `app` of a process that nobody gave a name: `record` knows no app object, and `OTEL_SERVICE_NAME` is not set."""

run_metrics: ContextVar[Metrics | None] = ContextVar("homing_run_metrics", default=None)
"""What the worker's run counts with; `None` outside of runs."""


class OwnMetrics:
    """The count in prometheus_client's default registry, made with the first event: a process that records none shows none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: Metrics | None = None
        self._broken = False

    def get(self) -> Metrics | None:
        """The metrics; `None` where the registry has refused them, which is said once and stops no event."""
        with self._lock:
            if self._metrics is None and not self._broken:
                self._metrics = self._make()
        if self._metrics is not None:
            self._metrics.find_mirror()
        return self._metrics

    def _make(self) -> Metrics | None:
        name = os.environ.get("OTEL_SERVICE_NAME") or UNNAMED
        try:
            return Metrics(name, REGISTRY, families=(declared.EVENTS_RECORDED,))
        except (
            ValueError,
            OSError,
        ) as error:  # a name that is taken; a folder for several processes that cannot be written to
            self._broken = True
            log.warning("recorded events are not counted in this process: %s", error)
            return None


own_metrics = OwnMetrics()
"""One for the process, as the default registry is."""


def count_recorded(topics: Iterable[str]) -> None:
    """Count events that were written."""
    metrics = run_metrics.get() or own_metrics.get()
    if metrics is None:
        return
    for topic, events in Counter(topics).items():
        metrics.count(declared.EVENTS_RECORDED, topic, by=events)
    if metrics.registry is REGISTRY:  # nobody else would flush it in a web app of several processes
        metrics.flush()
