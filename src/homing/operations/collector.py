"""The look that metrics, health and the verdict share: taken in the background, kept, and read from memory by whoever asks."""

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as PrometheusCollector

from homing.clock import Clock, SystemClock
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.metrics import declared
from homing.metrics.instruments import label_names
from homing.metrics.mirror import Series
from homing.operations.overview import (
    Overview,
    QueueState,
    read_consumers,
    read_processes,
    read_queue_names,
    read_queues,
    read_topics,
)
from homing.operations.verdict import Level, Reason, Verdict, judge
from homing.queue.browse import SteeredEngine
from homing.service import Progress

log = logging.getLogger("homing.operations")

COLLECT_SECONDS = 4.0
"""How often the look is taken: often enough that a standstill is told within 15 seconds."""

PATIENCE_SECONDS = 10.0
"""How long one look may take before it is given up."""

STALE_SECONDS = 15.0
"""How old a look may be before the verdict is that nobody knows."""


async def look_over(ledger: Ledger, engine: SteeredEngine) -> Overview:
    """One look at everything. A silent engine is part of it; a silent ledger raises `ServerUnavailable`."""
    topics, consumers, processes, rows = await asyncio.gather(
        read_topics(ledger), read_consumers(ledger), read_processes(ledger), read_queue_names(ledger)
    )
    names = [row["queue"] for row in rows]
    error, queues = None, tuple(QueueState(queue=name, counts=None) for name in names)
    try:
        queues = await read_queues(engine, names)
    except ServerUnavailable as unavailable:
        error = str(unavailable)
    return Overview(
        at=datetime.now(UTC),
        topics=topics,
        consumers=consumers,
        queues=queues,
        processes=processes,
        engine_error=error,
    )


class Collector(PrometheusCollector):
    """Keeps the last look. `tick` takes one; everything else reads memory, from any thread, and waits for no server."""

    def __init__(self, app: str, ledger: Ledger, engine: SteeredEngine, clock: Clock | None = None) -> None:
        self._app = app
        self._ledger = ledger
        self._engine = engine
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._overview: Overview | None = None
        self._before: Overview | None = None
        self._taken_at = self._clock.monotonic()
        self._error: str | None = None

    async def tick(self) -> Progress:
        """Take a look and keep it; a look that fails leaves the last one, which grows old."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                overview = await look_over(self._ledger, self._engine)
        except TimeoutError:
            self._fail(f"PostgreSQL did not answer the operators' questions within {PATIENCE_SECONDS:g} s")
            return Progress.REST
        except ServerUnavailable as error:
            self._fail(str(error))
            raise
        with self._lock:
            self._before, self._overview = self._overview, overview
            self._taken_at, self._error = self._clock.monotonic(), None
        return Progress.REST

    def overview(self) -> Overview | None:
        """The last look; `None` before the first one."""
        with self._lock:
            return self._overview

    def verdict(self) -> Verdict:
        """The judgement of the last look; that nobody knows, when it is too old."""
        with self._lock:
            overview, before, error = self._overview, self._before, self._error
            age_seconds = self._clock.monotonic() - self._taken_at
        if overview is None or age_seconds > STALE_SECONDS:
            text = error or f"nothing was seen for {age_seconds:.0f} s"
            return Verdict(Level.STALLED, (Reason(Level.STALLED, text, "start PostgreSQL again, or read the log"),))
        return judge(overview, before)

    def collect(self) -> Iterable[Metric]:
        """The gauges of the last look, for Prometheus; none when it is too old, so that nobody takes old numbers for new."""
        for metric, series in self.series().items():
            family = GaugeMetricFamily(metric.name, metric.meaning, labels=label_names(metric))
            for labels, value in series:
                family.add_metric([self._app, *labels], value)
            yield family

    def series(self) -> Mapping[declared.Metric, Series]:
        """The same for OpenTelemetry."""
        with self._lock:
            overview, age_seconds = self._overview, self._clock.monotonic() - self._taken_at
        return {} if overview is None or age_seconds > STALE_SECONDS else _series(overview)

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        yield from ()

    def _fail(self, error: str) -> None:
        with self._lock:
            self._error = error


def _series(overview: Overview) -> dict[declared.Metric, Series]:
    """Every collected gauge with its labels and values."""
    topics, consumers = overview.topics, overview.consumers
    queues = [queue for queue in overview.queues if queue.counts is not None]
    return {
        declared.CLAIMABLE: [((t.topic,), t.claimable if t.routable else 0) for t in topics],
        declared.OLDEST_CLAIMABLE: [((t.topic,), t.oldest_claimable_seconds if t.routable else 0.0) for t in topics],
        declared.SCHEDULED: [((t.topic,), t.scheduled) for t in topics],
        declared.UNROUTABLE: [((t.topic,), 0 if t.routable else t.claimable) for t in topics],
        declared.PARKED_EVENTS: [((t.topic,), t.parked) for t in topics],
        declared.UNSETTLED: [((c.consumer,), c.unsettled) for c in consumers],
        declared.OVERDUE: [((c.consumer,), c.overdue) for c in consumers],
        declared.OLDEST_UNSETTLED: [((c.consumer,), c.oldest_unsettled_seconds) for c in consumers],
        declared.OPEN_LETTERS: [((c.consumer,), c.open_letters) for c in consumers],
        declared.QUEUE_JOBS: [((q.queue, state), count) for q in queues for state, count in q.states()],
        declared.OLDEST_WAITING: [((q.queue,), q.oldest_waiting_seconds) for q in queues],
        declared.PAUSED: [((q.queue,), float(q.paused)) for q in queues],
    }
