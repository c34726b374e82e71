"""A relay with a million unsettled deliveries: its memory, the rate of its sweep, and how long fresh events take meanwhile.

    python -m benchmarks.backlog [--rows 1000000] [--seconds 60] [--flushed] [--rate 2000]

A real `homing relay` looks at another application's backlog for so many seconds. Redis holds a job for every delivery, or with `--flushed` none, and then all are
dispatched again. Meanwhile events are recorded for another queue, and a worker in a process of its own says when each handler begins.
Bars: 100 MB resident, the rate not exceeded, p99 of commit to handler below 200 ms. The full million needs about 3 GB of memory.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import psutil
from redis.asyncio import Redis

from benchmarks.backlog_app import Fresh
from benchmarks.latency import percentiles
from homing import record
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings, stop_with_parent
from homing.ids import DeliveryKey
from homing.schema import migrate
from tests.waiting import until

PREFIX = "backlog"
PAGE = 1000
FRESH_PER_SECOND = 20
WARM_UP = 20
READY_SECONDS = 60
FILL = """
WITH made AS (
  INSERT INTO homing.outbox_events (id, topic, payload, published_at)
  SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000' || '8000' || lpad(to_hex(i), 12, '0'))::uuid,
    'backlog.stuck', jsonb_build_object('number', i), now() FROM generate_series(1, $1::integer) i RETURNING id)
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, check_at) SELECT id, 'stuck.wait', 'stuck', 'wait', now() FROM made
"""
REGISTER = "INSERT INTO homing.queues (queue) VALUES ('stuck')"
ADD = """
for _, id in ipairs(ARGV) do
  redis.call('HSET', KEYS[1] .. id, 'name', 'wait', 'data', '{}', 'timestamp', '0')
  redis.call('LPUSH', KEYS[1] .. 'wait', id)
end
"""
LOOKED = "SELECT count(*) FROM homing.deliveries WHERE queue = 'stuck' AND settled_at IS NULL AND check_at > now()"


class Starts(asyncio.DatagramProtocol):
    """Hears from the worker which handlers began, and remembers how long after its commit."""

    def __init__(self) -> None:
        self.committed: dict[UUID, float] = {}
        self.early: dict[UUID, float] = {}
        self.waits: list[float] = []

    def datagram_received(self, data: bytes, _: object) -> None:
        now, event_id = time.perf_counter(), UUID(bytes=data)
        if event_id in self.committed:
            self.waits.append((now - self.committed.pop(event_id)) * 1000)
        else:
            self.early[event_id] = now

    def commit(self, event_id: UUID) -> None:
        """This event is committed now; its handler may have been quicker than the answer."""
        if event_id in self.early:
            self.waits.append(0.0)
            del self.early[event_id]
        else:
            self.committed[event_id] = time.perf_counter()


@dataclass(frozen=True, slots=True)
class Ground:
    """The servers, and where the processes report to."""

    database_url: str
    redis_url: str
    folder: Path
    rate: int
    port: int

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A `homing` process with default settings, which is killed at the end."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
        ours = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "HOMING_PREFIX": PREFIX,
            "HOMING_LOOK_RATE": str(self.rate),
            "HOMING_HTTP_ADDRESS": "off",
            "BACKLOG_PORT": str(self.port),
        }
        command = [sys.executable, "-m", "homing", "--app", "benchmarks.backlog_app:app", *arguments]
        with self.log(arguments[0]).open("wb") as output:
            process = subprocess.Popen(command, env=kept | ours, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    async def ready(self, name: str) -> None:
        await until(lambda: " ready" in self.log(name).read_text(), READY_SECONDS, f"the {name} is ready")


async def main() -> None:
    """Fill both servers, let the relay work, print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--flushed", action="store_true", help="Redis holds no job of the backlog")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder) / "postgres", settings={**fast_test_settings, "max_wal_size": "4GB"}) as postgres,
        EmbeddedValkey(Path(folder) / "valkey") as valkey,
    ):
        stop_with_parent(postgres)
        stop_with_parent(valkey)
        sql = await asyncpg.connect(postgres.url())
        await fill(sql, valkey.url(), options)
        starts = Starts()
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: starts, local_addr=("127.0.0.1", 0)
        )
        port = transport.get_extra_info("sockname")[1]
        ground = Ground(postgres.url(), valkey.url(), Path(folder), options.rate, port)
        print(await measure(ground, sql, starts, options), flush=True)
        transport.close()
        await sql.close()


async def fill(sql: asyncpg.Connection, redis_url: str, options: Any) -> None:
    """The backlog, and its jobs where Redis shall hold them."""
    await migrate(sql, engine="redis")
    await sql.execute(FILL, options.rows)
    await sql.execute("VACUUM ANALYZE homing.outbox_events, homing.deliveries")
    if options.flushed:
        return
    redis = Redis.from_url(redis_url)
    async with sql.transaction():
        cursor = await sql.cursor("SELECT event_id FROM homing.deliveries")
        while rows := await cursor.fetch(PAGE):
            ids = [DeliveryKey(row["event_id"], "stuck.wait", 1).job_id for row in rows]
            await redis.eval(ADD, 1, f"{PREFIX}:stuck:", *ids)
    await redis.aclose()


async def measure(ground: Ground, sql: asyncpg.Connection, starts: Starts, options: Any) -> str:
    """Run relay and worker; the line of figures."""
    with ground.process("relay") as relay, ground.process("worker", "--no-relay", "--queues", "fresh"):
        await asyncio.gather(ground.ready("relay"), ground.ready("worker"))
        memory = psutil.Process(relay.pid)
        alone, _ = await record_fresh(sql, starts, memory, options.seconds / 4)
        await sql.execute(REGISTER)
        began = time.perf_counter()
        waits, largest = await record_fresh(sql, starts, memory, options.seconds)
        looked, seconds = await sql.fetchval(LOOKED), time.perf_counter() - began
    how = "jobs flushed" if options.flushed else "jobs in Redis"
    return (
        f"{options.rows:,} unsettled, {how}: {looked / seconds:,.0f} looked at a second (at most {options.rate:,}), relay "
        f"{largest / 2**20:.0f} MiB resident; commit → handler {percentiles(waits)}; without the backlog {percentiles(alone)}"
    )


async def record_fresh(
    sql: asyncpg.Connection, starts: Starts, relay: psutil.Process, seconds: float
) -> tuple[list[float], int]:
    """Record events one by one for so long; the waits of those after the warm-up, and the most memory that the relay had."""
    largest, before = 0, len(starts.waits)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        event = Fresh()
        async with sql.transaction():
            await record(sql, event)
        starts.commit(event.event_id)
        largest = max(largest, relay.memory_info().rss)
        await asyncio.sleep(1 / FRESH_PER_SECOND)
    await until(lambda: not starts.committed, READY_SECONDS, "every fresh event has begun")
    return starts.waits[before + WARM_UP :], largest


if __name__ == "__main__":
    asyncio.run(main())
