"""Once a second a process says how it does: its loops, its slots, its servers."""

import asyncio
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from homing.clock import Clock, SystemClock
from homing.ledger.ledger import LEDGER
from homing.metrics import Metrics, declared
from homing.processes.standing import Standing, backend_label
from homing.queue.parked import ParkedJobs
from homing.relay import Listener
from homing.service import Loop, Progress
from homing.worker.worker import Worker

PULSE_SECONDS = 1.0

LAG_SECONDS = 0.5
"""How far ahead the timer is set whose lateness is measured: half of all time is watched, and every longer blockage seen."""

MOST_NAMES = 20
"""Names of parked jobs shown for each queue, the most frequent ones: producers invent them, and may invent any number."""

OTHER = "(other)"


class Pulse:
    """Sets the gauges that are true at a moment; `lag_seconds`: how late the event loop's last measured turn came."""

    def __init__(
        self,
        metrics: Metrics,
        standing: Standing,
        *,
        engine: str,
        worker: Worker | None = None,
        listener: Listener | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._metrics = metrics
        self._standing = standing
        self._engine = engine
        self._worker = worker
        self._listener = listener
        self._clock = clock or SystemClock()
        self.lag_seconds = 0.0
        self.loop = Loop("pulse", self.tick, interval_seconds=PULSE_SECONDS)
        metrics.set(declared.BUILD, version("homing"), platform.python_version(), engine, to=1)

    def note_back(self, server: str) -> None:
        """A server answers again."""
        self._metrics.count(declared.RECONNECTS, backend_label(server, self._engine))

    async def tick(self) -> Progress:
        """Say everything, and set the timer."""
        self._metrics.find_mirror()
        self._metrics.flush()
        self._tell_loops()
        self._tell_servers()
        if self._worker is not None:
            self._tell_worker(self._worker)
        event_loop = asyncio.get_running_loop()
        due = event_loop.time() + LAG_SECONDS
        event_loop.call_at(due, lambda: self._note_lag(max(0.0, event_loop.time() - due)))
        return Progress.REST

    def _note_lag(self, seconds: float) -> None:
        self.lag_seconds = seconds
        self._metrics.observe(declared.LOOP_LAG, seconds=seconds)

    def _tell_loops(self) -> None:
        epoch = self._clock.now().timestamp() - self._clock.monotonic()
        for loop in self._standing.loops:
            self._metrics.set(declared.LAST_TICK, loop.name, to=epoch + loop.last_tick)

    def _tell_servers(self) -> None:
        away = {backend_label(server, self._engine) for server in self._standing.away()}
        for backend in (backend_label(LEDGER, self._engine), self._engine):
            self._metrics.set(declared.BACKEND_UP, backend, to=float(backend not in away))
        if self._listener is not None:
            self._metrics.set(declared.LISTENER_UP, to=float(self._listener.hears))

    def _tell_worker(self, worker: Worker) -> None:
        for queue, slots in worker.slots.items():
            self._metrics.set(declared.RUNNING, queue, to=slots.running)
            self._metrics.set(declared.SLOTS, queue, to=slots.total)
        self._metrics.replace(declared.STUCK, {(*name,): count for name, count in worker.stuck_by_name.items()})
        self._metrics.replace(declared.PARKED_JOBS, parked_series(worker.parked))


def parked_series(parked: Mapping[str, Sequence[ParkedJobs]]) -> dict[tuple[str, ...], float]:
    """Parked jobs by queue and name, at most `MOST_NAMES` names a queue; the rest is one sum."""
    series: dict[tuple[str, ...], float] = {}
    for queue, kinds in parked.items():
        names: Counter[str] = Counter()
        for jobs in kinds:
            names[jobs.kind.job] += jobs.count
        shown = names.most_common(MOST_NAMES)
        series.update({(queue, name): count for name, count in shown})
        if rest := names.total() - sum(count for _, count in shown):
            series[queue, OTHER] = rest
    return series
