"""Wall time, CPU time and memory of one step of `make bench-quick`, in whichever process it runs."""

import asyncio
import json
import time
from typing import TypedDict

import psutil


class Figures(TypedDict):
    """What a step prints as its last line. `rate`: jobs per second; `cpu_us`: CPU per job of the process alone."""

    rate: float
    cpu_us: float
    rss_mib: float


class Watch:
    """Wall and CPU time of this process since it was made, until `stop`."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._ended: tuple[float, float] | None = None

    def stop(self) -> None:
        self._ended = time.perf_counter() - self._wall, time.process_time() - self._cpu

    @property
    def seconds(self) -> tuple[float, float]:
        """Wall and CPU seconds."""
        return self._ended or (time.perf_counter() - self._wall, time.process_time() - self._cpu)


class Meter:
    """Counts runs: time begins with the first one and ends with the start of the last."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._seen = 0
        self._watch = Watch()
        self._full = asyncio.Event()

    def note(self) -> None:
        """One run has started."""
        self._seen += 1
        if self._seen == 1:
            self._watch = Watch()
        if self._seen == self._jobs:
            self._watch.stop()
            self._full.set()

    async def all_started(self) -> Watch:
        """The time that all of them took."""
        await self._full.wait()
        return self._watch


def report(watch: Watch, jobs: int) -> None:
    """Print the line that the benchmark reads."""
    wall, cpu = watch.seconds
    memory = psutil.Process().memory_info().rss / 2**20
    print(json.dumps(Figures(rate=jobs / wall, cpu_us=cpu / jobs * 1e6, rss_mib=memory)))
