"""After a flush: how long until every unsettled delivery has a job again, and how fast fresh events are meanwhile.

Run with `python -m benchmarks.flush [deliveries]` from the root of the repository (10,000 unless said otherwise), with the settings as they
are shipped. The relay runs in this process. Nothing is asserted: numbers belong to a machine.
"""

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.schema import migrate
from tests.system import System, running

QUEUE = "bench"
BATCH = 1_000


class Waits(Event, topic="bench.waits", unrouted=True):
    """Handed over, and not run."""

    number: int


def bench_app() -> Homing:
    app = Homing("bench")

    @app.queue(QUEUE).handler("wait", on=Waits, at_least_once=True)
    async def wait(event: Waits) -> None: ...

    return app


async def all_wait(system: System, jobs: int) -> float:
    """When so many jobs wait in the engine."""
    while (await system.engine.counts(QUEUE)).waiting < jobs:  # noqa: ASYNC110 - the engine tells nobody
        await asyncio.sleep(0.05)
    return time.perf_counter()


async def measure(settings: Settings, deliveries: int) -> None:
    """Hand them over, flush, and wait until all are back."""
    async with running(bench_app(), settings, worker=False) as system:
        for start in range(0, deliveries, BATCH):
            await system.record(*(Waits(number=number) for number in range(start, min(start + BATCH, deliveries))))
        await all_wait(system, deliveries)
        with Redis.from_url(settings.redis_dsn) as client:
            client.flushall()
        flushed = time.perf_counter()
        while (await system.engine.counts(QUEUE)).waiting in (0, deliveries):  # noqa: ASYNC110 - the engine tells nobody
            await asyncio.sleep(0.05)
        first = time.perf_counter()
        last = await all_wait(system, deliveries)
        assert system.relay is not None
        grace = settings.look_grace.total_seconds()
        print(f"{deliveries:,} deliveries, grace {grace:g} s, {settings.look_rate:,} a second at the most")
        print(
            f"first job back after {first - flushed:.1f} s, last after {last - flushed:.1f} s: grace + {last - flushed - grace:.1f} s"
        )
        print(f"{deliveries / max(last - first, 1e-9):,.0f} a second; findings: {dict(system.relay.sweep.findings)}")
        print(f"most memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


async def prepare(database_url: str) -> None:
    """Make the tables."""
    connection = await asyncpg.connect(database_url)
    try:
        await migrate(connection, engine="redis")
    finally:
        await connection.close()


def main() -> None:
    """Start both servers, measure, stop them."""
    deliveries = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        postgres, valkey = EmbeddedPostgres(Path(folder, "postgres")), EmbeddedValkey(Path(folder, "valkey"))
        with postgres, valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            settings = Settings(database_url=postgres.url(), redis_url=valkey.url())
            asyncio.run(prepare(postgres.url()))
            asyncio.run(measure(settings, deliveries))


if __name__ == "__main__":
    main()
