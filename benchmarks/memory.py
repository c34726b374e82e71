"""Whether a worker's memory stays flat: the resident set of a real `homing worker` while it runs very many jobs.

    python -m benchmarks.memory [--jobs 1000000]

The worker runs in a process of its own, on servers of this run's own, with the log that it has by default. Jobs are added as they are drained,
so that Redis holds a bounded number. Sampled after every tenth of the jobs; flat = the last sample is at most 5 MB above the first. Exit
code 1 where it is not.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg

from homing import Event, Homing
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.events.codec import dump_json
from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.port import Accepted
from homing.queue.redis import RedisEngine
from homing.schema import migrate

PREFIX = "memory"
QUEUE = "bench"
MOST_WAITING = 20_000
PAGE = 1_000
SAMPLES = 10
FLAT_MB = 5.0


class Counted(Event, topic="bench.counted", unrouted=True):
    """Handled by doing nothing."""

    number: int


app = Homing("memory")


@app.queue(QUEUE, concurrency=100).handler("count", on=Counted, at_least_once=True)
async def count(event: Counted) -> None:
    """Nothing, so that everything that grows is ours."""
    del event


def resident_mb(pid: int) -> float:
    """The resident set of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} shows no resident set")


@contextmanager
def worker_of(database_url: str, redis_url: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker without a relay."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
    urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HOMING_PREFIX": PREFIX, "HOMING_HTTP_ADDRESS": "off"}
    command = [sys.executable, "-m", "homing", "--app", "benchmarks.memory:app", "worker", "--no-relay"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=kept | urls, stdout=output, stderr=output) as worker,
    ):
        try:
            yield worker
        finally:
            worker.terminate()


def jobs_from(first: int, number: int) -> list[NewJob]:
    """Jobs as a service would add them that knows BullMQ and not Homing."""
    now_ms = int(time.time() * 1000)
    return [
        NewJob(
            id=JobId(f"j-{at}"),
            name="count",
            data=dump_json({"eventId": str(uuid4()), "payload": {"number": at}}),
            timestamp_ms=now_ms,
        )
        for at in range(first, first + number)
    ]


async def measure(engine: RedisEngine, pid: int, jobs: int) -> list[float]:
    """Feed all jobs and return the samples."""
    added, samples = 0, list[float]()
    while len(samples) < SAMPLES:
        counts = await engine.counts(QUEUE)
        left = counts.waiting + counts.active + counts.delayed
        while len(samples) < SAMPLES and added - left >= jobs * (len(samples) + 1) // SAMPLES:
            samples.append(resident_mb(pid))
            print(f"{added - left:>10,} jobs done{samples[-1]:>8.1f} MB", flush=True)
        if added < jobs and left < MOST_WAITING:
            number = min(PAGE, jobs - added)
            answers = await engine.add(QUEUE, jobs_from(added, number))
            assert all(answer is Accepted.ACCEPTED for answer in answers)
            added += number
        else:
            await asyncio.sleep(0.05)
    return samples


async def run(jobs: int, database_url: str, redis_url: str, log: Path) -> bool:
    """Whether the worker's memory stayed flat."""
    connection = await asyncpg.connect(database_url)
    await migrate(connection, engine="redis")
    await connection.close()
    engine = RedisEngine(redis_url, prefix=PREFIX)
    await engine.open()
    started = time.monotonic()
    with worker_of(database_url, redis_url, log) as worker:
        samples = await measure(engine, worker.pid, jobs)
    await engine.close()
    first, last = samples[0], samples[-1]
    flat = last <= first + FLAT_MB
    print(
        f"memory: {jobs:,} jobs in {time.monotonic() - started:.0f} s, resident first={first:.1f} MB last={last:.1f} MB "
        f"max={max(samples):.1f} MB: {'flat' if flat else 'NOT flat'}"
    )
    return flat


def main() -> int:
    """Measure, and say so."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=1_000_000)
    jobs = arguments.parse_args().jobs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with EmbeddedPostgres(folder / "postgres") as postgres, EmbeddedValkey(folder / "valkey") as valkey:
            for server in (postgres, valkey):
                stop_with_parent(server)
            return 0 if asyncio.run(run(jobs, postgres.url(), valkey.url(), folder / "worker.log")) else 1


if __name__ == "__main__":
    sys.exit(main())
