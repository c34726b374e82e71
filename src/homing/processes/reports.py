"""What a worker tells its supervisor: a file that it writes anew every second, from a thread of its own, so that nobody must ask it."""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

log = logging.getLogger("homing.process")

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that says where: the supervisor's folder, where the Prometheus client keeps the counters of every worker too."""

REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """How one worker does, at a moment of the machine's monotonic clock; `collected`: the gauges of its last look, as Prometheus text."""

    at: float
    live: bool
    ready: bool
    reasons: list[str]
    verdict: Mapping[str, object]
    collected: str


@contextmanager
def reporting(folder: Path, make: Callable[[], Report]) -> Iterator[None]:
    """Report inside the block, and once more at its end."""
    stopping = threading.Event()

    def work() -> None:
        while True:
            ending = stopping.is_set()
            try:
                write_report(folder, make())
            except Exception:  # a full disk, or a mistake of ours: the next second may do better
                log.exception("this worker could not tell its supervisor how it does")
            if ending:
                return
            stopping.wait(REPORT_SECONDS)

    thread = threading.Thread(target=work, name="homing-report", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def write_report(folder: Path, report: Report) -> None:
    """Replace this process's report; a reader sees the old one or the new one, whole."""
    path = report_of(folder, os.getpid())
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(report)))
    new.replace(path)


def read_report(folder: Path, pid: int) -> Report | None:
    """The last report of a process; `None` before its first one."""
    try:
        return Report(**json.loads(report_of(folder, pid).read_text()))
    except FileNotFoundError:
        return None


def report_of(folder: Path, pid: int) -> Path:
    """Where a process reports."""
    return folder / f"report-{pid}.json"
