"""What it costs to be seen: one look of the collector at a large ledger and many queues, and what a process then answers over HTTP.

    python -m benchmarks.operations [--rows 5000000] [--queues 50]

The ledger is that of `benchmarks.seen`: settled deliveries, 100,000 unsettled ones, 100,000 events scheduled, fifty topics, a hundred
consumers, 20,000 letters. Bars: a look below 200 ms, a scrape below 50 ms, every answer below 100 ms while a look hangs on a lock.
Nothing is asserted: numbers belong to a machine.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import asyncpg
from prometheus_client import generate_latest

from benchmarks.seen import fill
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics
from homing.operations.collector import Collector
from homing.processes.endpoint import METRICS, VERDICT, answers_of
from homing.processes.http import HealthServer
from homing.processes.standing import Standing
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine

LOOKS = 15
ASKED = 50
JOBS = 100
QUEUES = "INSERT INTO homing.queues (queue) SELECT 'q' || i FROM generate_series(0, $1::integer - 1) i"
LOCK = "LOCK TABLE homing.deliveries"


def tell(name: str, took: list[float]) -> None:
    """Median and slowest, in milliseconds."""
    print(f"{name:<44} {statistics.median(took):8.1f} ms median {max(took):8.1f} ms slowest", flush=True)


def time_answers(address: str, path: str) -> list[float]:
    """How long so many answers took, one after another, connection included."""
    return [_time(lambda: get(address, path)) for _ in range(ASKED)]


def get(address: str, path: str) -> bytes:
    """One answer, whatever its status."""
    connection = HTTPConnection(address)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


def _time(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return (time.perf_counter() - began) * 1000


def _burn(do: Callable[[], object]) -> float:
    began = time.thread_time()
    do()
    return (time.thread_time() - began) * 1000


async def register(database_url: str, engine: RedisEngine, queues: int) -> None:
    """Queues with jobs, known to the ledger."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(QUEUES, queues)
    await connection.close()
    for number in range(queues):
        jobs = [NewJob(id=f"j{job}", name="do", data="{}", timestamp_ms=int(time.time() * 1000)) for job in range(JOBS)]  # type: ignore[arg-type]  # ids of its own
        await engine.add(f"q{number}", jobs)


async def look(collector: Collector) -> list[float]:
    """How long so many looks took."""
    took = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        await collector.tick()
        took.append((time.perf_counter() - began) * 1000)
    return took


async def measure(database_url: str, redis_url: str, rows: int, queues: int) -> None:
    """Fill, look, ask; then ask while a look hangs."""
    await fill(database_url, rows)
    ledger = Ledger(database_url, engine="redis", application="bench")
    engine = RedisEngine(redis_url, prefix="bench")
    await ledger.open()
    await engine.open()
    await register(database_url, engine, queues)
    metrics, standing = Metrics("bench"), Standing("worker")
    collector = Collector("bench", ledger, engine)
    metrics.registry.register(collector)
    tell(f"one look, {queues} queues", await look(collector))
    server = HealthServer("127.0.0.1:0", answers_of(standing, collector, metrics.registry))
    server.start()
    size = len(await asyncio.to_thread(get, server.address, METRICS))
    tell("scrape, its processor time alone", [_burn(lambda: generate_latest(metrics.registry)) for _ in range(ASKED)])
    tell(f"scrape, {size:,} bytes", await asyncio.to_thread(time_answers, server.address, METRICS))
    tell("verdict", await asyncio.to_thread(time_answers, server.address, VERDICT))
    await while_it_hangs(database_url, collector, server.address)
    server.close()
    await engine.close()
    await ledger.close()


async def while_it_hangs(database_url: str, collector: Collector, address: str) -> None:
    """The same while somebody holds a lock that the look waits for."""
    holder = await asyncpg.connect(database_url)
    async with holder.transaction():
        await holder.execute(LOCK)
        hanging = asyncio.create_task(collector.tick())
        for path in (METRICS, VERDICT, "/livez"):
            tell(f"{path} while a look hangs", await asyncio.to_thread(time_answers, address, path))
        assert not hanging.done(), "the look did not hang"
    await asyncio.gather(hanging, return_exceptions=True)
    await holder.close()


def main() -> None:
    """Servers of its own, in a folder that is deleted afterwards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--queues", type=int, default=50)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder) / "postgres") as postgres,
        EmbeddedValkey(Path(folder) / "valkey") as valkey,
    ):
        for server in (postgres, valkey):
            stop_with_parent(server)
        asyncio.run(measure(postgres.url(), valkey.url(), options.rows, options.queues))


if __name__ == "__main__":
    main()
