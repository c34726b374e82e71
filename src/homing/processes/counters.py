"""The counters of several processes, which the Prometheus client keeps in files.

Those of processes that are gone are added up in one file for each kind, so that they survive and their files do not pile up.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

_File: Any = MmapedDict
"""The client's own form of its files, which has no types."""

KINDS = ("counter", "histogram", "summary")


class Counters(Collector):
    """What all processes that are or were there have counted, and the gauges of those that are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        """Read every file; one that a process is just making is empty for a moment, and left out."""
        files = [str(file) for file in self._folder.glob("*.db") if file.stat().st_size]
        found: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # the client has no types here
        return found


def keep_counters(folder: Path, pid: int) -> None:
    """Forget the gauges of a process that has ended, and add what it counted to what those before it have."""
    mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]  # the client has no types here
    for kind in KINDS:
        file = folder / f"{kind}_{pid}.db"
        if not file.exists():
            continue
        if file.stat().st_size:  # otherwise it died while it made the file
            _add(file, folder / f"{kind}_gone.db")
        file.unlink()


def gone(folder: Path) -> set[int]:
    """The processes that have files and are not there any more: workers, and children that a handler ran in."""
    numbers = {file.stem.rpartition("_")[2] for file in folder.glob("*_*.db")}
    return {int(number) for number in numbers if number.isdecimal() and not _exists(int(number))}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's: the number is used again
        return True
    return True


def _add(file: Path, to: Path) -> None:
    kept: Any = _File(str(to))
    try:
        for key, value, at, _ in _File.read_all_values_from_file(str(file)):
            kept.write_value(key, kept.read_value(key)[0] + value, at)
    finally:
        kept.close()
