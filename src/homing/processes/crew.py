"""Several workers behind one endpoint: their health judged together, their counters added up, one look at everything."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest

from homing.clock import Clock, SystemClock
from homing.config.settings import Settings
from homing.errors import ConfigurationError
from homing.operations.collector import STALE_SECONDS
from homing.operations.verdict import Level, Reason, Verdict
from homing.processes.counters import Counters, gone, keep_counters
from homing.processes.endpoint import (
    LIVE,
    METRICS,
    READY,
    VERDICT,
    answer_live,
    answer_metrics,
    answer_ready,
    describe_verdict,
    served,
)
from homing.processes.http import Answer, Answers, answer_json
from homing.processes.reports import Report, read_report, report_of
from homing.worker.health import Health

STARTING_SECONDS = 60.0
"""How long a worker may take from its start to its first report."""

SILENT_SECONDS = 10.0
"""How long a worker may say nothing before it counts as frozen: its report comes from a thread that nothing it does can hold up."""


class Place(Protocol):
    """One of the supervisor's places."""

    number: int

    @property
    def pid(self) -> int | None: ...

    @property
    def started_at(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Seat:
    """A place at a moment: who fills it, since when, and what it said last, how long ago."""

    number: int
    pid: int | None
    age_seconds: float
    report: Report | None
    silent_seconds: float

    def judge(self) -> Health:
        """How the worker does. A place that is empty for a moment is filled by the supervisor: nobody need restart anything."""
        name = f"worker {self.number} (process {self.pid})"
        if self.pid is None:
            return Health(live=True, ready=False, reasons=(f"worker {self.number} does not run",))
        if self.report is None and self.age_seconds <= STARTING_SECONDS:
            return Health(live=True, ready=False, reasons=(f"{name} is starting",))
        if self.report is None or self.silent_seconds > SILENT_SECONDS:
            silence = min(self.silent_seconds, self.age_seconds)
            return Health(live=False, ready=False, reasons=(f"{name} has said nothing for {silence:.0f} s",))
        reasons = tuple(f"{name}: {reason}" for reason in self.report.reasons)
        return Health(live=self.report.live, ready=self.report.ready, reasons=reasons)


def judge_crew(seats: Sequence[Seat]) -> Health:
    """All must live, and one that works is enough."""
    healths = [seat.judge() for seat in seats]
    live = all(health.live for health in healths)
    return Health(
        live=live,
        ready=live and any(health.ready for health in healths),
        reasons=tuple(reason for health in healths for reason in health.reasons),
    )


class Crew:
    """Answers for all workers of a supervisor, in the endpoint's threads, from what they wrote into the folder."""

    def __init__(self, places: Sequence[Place], folder: Path, clock: Clock | None = None) -> None:
        self._places = places
        self._folder = folder
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(Counters(folder))

    @property
    def answers(self) -> Answers:
        """What the endpoint serves."""
        return {
            LIVE: lambda: answer_live(judge_crew(self._seats())),
            READY: lambda: answer_ready(judge_crew(self._seats())),
            VERDICT: self._verdict,
            METRICS: lambda: answer_metrics(self.exposition()),
        }

    def exposition(self) -> bytes:
        """The counters of all workers that are or were there, and the gauges of the newest look."""
        newest = self._newest()
        with self._lock:
            for pid in gone(self._folder):
                keep_counters(self._folder, pid)
            counted = generate_latest(self._registry)
        return counted if newest is None else counted + newest.collected.encode()

    def forget(self, pid: int) -> None:
        """A worker has ended: it shows nothing any more, and what it counted stays counted."""
        with self._lock:
            keep_counters(self._folder, pid)
        report_of(self._folder, pid).unlink(missing_ok=True)

    def _verdict(self) -> Answer:
        newest = self._newest()
        verdict: Mapping[str, object] = describe_verdict(_NOBODY_KNOWS) if newest is None else newest.verdict
        return answer_json(verdict, good=verdict["level"] != Level.STALLED.name.lower())

    def _newest(self) -> Report | None:
        """The report of the worker that looked last, as far as anybody can tell; `None` when none is fresh."""
        fresh = [seat.report for seat in self._seats() if seat.report and seat.silent_seconds <= STALE_SECONDS]
        return max(fresh, key=lambda report: (bool(report.collected), report.at), default=None)

    def _seats(self) -> list[Seat]:
        return [self._seat(place) for place in self._places]

    def _seat(self, place: Place) -> Seat:
        pid, now = place.pid, self._clock.monotonic()
        report = None if pid is None else read_report(self._folder, pid)
        silent_seconds = float("inf") if report is None else now - report.at
        return Seat(place.number, pid, now - place.started_at, report, silent_seconds)


_NOBODY_KNOWS = Verdict(
    Level.STALLED, (Reason(Level.STALLED, "no worker has looked yet", "wait for the first one, or read the log"),)
)


class Watchable(Protocol):
    """A supervisor, as far as a crew is shown: told before its first worker starts."""

    @property
    def places(self) -> Sequence[Place]: ...

    def show_in(self, folder: Path, on_end: Callable[[int], None]) -> None: ...


@contextmanager
def crew_shown(supervisor: Watchable, settings: Settings) -> Iterator[str | None]:
    """Serve for all workers inside the block; where, or `None` when nothing is served."""
    if settings.http_address == "off":
        yield None
        return
    with _private_folder() as name:
        folder = Path(name)
        crew = Crew(supervisor.places, folder)
        with served(settings, crew.answers) as address:
            if address is not None:
                supervisor.show_in(folder, crew.forget)
            yield address


def _private_folder() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="homing-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigurationError(
            f"the workers of a supervisor need a folder to count in: {error}: set TMPDIR to one, or HOMING_HTTP_ADDRESS=off"
        ) from error
