"""Jobs per second and CPU per job of the Redis engine alone: bulk add, and drain of jobs that do nothing.

    python benchmarks/engine.py [--jobs 20000] [--slots 100] [--url redis://…]

Without a URL a Valkey of its own is started. Figures depend on the machine: compare them within one run only.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from homing.embedded import EmbeddedValkey
from homing.ids import JobId, new_token
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.port import Accepted, ClaimRequest
from homing.queue.redis import RedisEngine

QUEUE = "bench"
KEEP = KeepRule(count=0)


@dataclass(frozen=True)
class Figure:
    """What one phase took."""

    name: str
    jobs: int
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        rate = self.jobs / self.seconds
        return f"{self.name:<28}{rate:>10,.0f} jobs/s{self.cpu_seconds / self.jobs * 1e6:>8.1f} µs CPU/job"


class Stopwatch:
    """Wall and CPU time of this process since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def figure(self, name: str, jobs: int) -> Figure:
        return Figure(name, jobs, time.perf_counter() - self._wall, time.process_time() - self._cpu)


async def add_all(engine: RedisEngine, count: int) -> Figure:
    jobs = [
        NewJob(id=JobId(f"job-{n}"), name="nothing", data='{"payload":{"n":1}}', timestamp_ms=int(time.time() * 1000))
        for n in range(count)
    ]
    watch = Stopwatch()
    answers = await engine.add(QUEUE, jobs)
    figure = watch.figure("bulk add", count)
    assert all(answer is Accepted.ACCEPTED for answer in answers)
    return figure


def ask() -> ClaimRequest:
    return ClaimRequest(new_token(), 30.0)


async def drain_one_slot(engine: RedisEngine) -> int:
    done = 0
    found: object = await engine.claim(QUEUE, ask())
    while isinstance(found, ClaimedJob):
        found = (await engine.complete(found, "null", mark="done", keep=KEEP, claim_next=ask())).next
        done += 1
    return done


async def drain(engine: RedisEngine, slots: int) -> Figure:
    watch = Stopwatch()
    done = sum(await asyncio.gather(*(drain_one_slot(engine) for _ in range(slots))))
    return watch.figure(f"drain, {slots} slots", done)


async def measure(url: str, jobs: int, slots: int) -> None:
    engine = RedisEngine(url, prefix="homing-bench")
    await engine.open()
    print(await add_all(engine, jobs))
    print(await drain(engine, slots))
    await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.url:
        asyncio.run(measure(options.url, options.jobs, options.slots))
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedValkey(Path(folder) / "valkey") as server:
        asyncio.run(measure(server.url(), options.jobs, options.slots))


if __name__ == "__main__":
    main()
