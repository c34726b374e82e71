"""What an effect that counts once costs: our worker beside a bare loop over the driver that runs the same statements.

    python -m benchmarks.effects [--events 3000] [--rounds 3]

Everybody does the same to the same rows of one PostgreSQL: settle a delivery, add to a balance, keep the result, commit. `bare`: a
loop over 16 connections of asyncpg in one process, and nothing else. `clients`: the same by 16 clients in 4 processes, as pgbench
would. `once`: our worker with `Transaction` on 16 connections, one event a transaction. `batch`: the same with `batch=50`. Contenders
alternate, each in processes of its own; figures are medians. Nothing is asserted.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import asyncpg
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from benchmarks.quick_meter import Meter
from homing import Event, Homing, Provider, Transaction
from homing.config.logs import configure_logging
from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.events.envelope import seal
from homing.ids import DeliveryKey, new_event_id
from homing.ledger.statements import FINISH_SETTLE, SETTLE
from homing.processes.opening import open_process
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine
from homing.schema import migrate
from homing.worker import Worker

CONNECTIONS = 16
PROCESSES = 4
CONSUMER = "bench.job"
TABLE = "DROP TABLE IF EXISTS balances; CREATE TABLE balances (owner int PRIMARY KEY, balance bigint NOT NULL)"
EMPTY = "TRUNCATE homing.outbox_events, homing.deliveries, homing.dead_letters CASCADE"
OPEN = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, check_at)
SELECT i, 'bench.job', 'bench', 'job', now() + interval '1 h' FROM unnest($1::uuid[]) i
"""
ADD = "INSERT INTO balances VALUES (:owner, 1) ON CONFLICT (owner) DO UPDATE SET balance = balances.balance + 1"
ADD_ALL = """
INSERT INTO balances SELECT owner, count(*) FROM unnest(CAST(:owners AS int[])) owner GROUP BY owner ORDER BY owner
ON CONFLICT (owner) DO UPDATE SET balance = balances.balance + excluded.balance
"""


class Earned(Event, topic="bench.earned", unrouted=True):
    """Somebody gets something."""

    owner: int


async def prepare(database_url: str, redis_url: str, ids: Sequence[UUID], *, with_jobs: bool) -> None:
    """Fresh rows, and their jobs for those who need them, as a relay would have left them."""
    connection = await asyncpg.connect(database_url)
    for statement in (TABLE, EMPTY):
        await connection.execute(statement)
    await connection.execute(OPEN, ids)
    await connection.execute("ANALYZE")
    await connection.close()
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
    if with_jobs:
        engine = RedisEngine(redis_url, prefix="bull")
        await engine.open()
        await engine.add("bench", [job_of(number, event_id) for number, event_id in enumerate(ids)])
        await engine.close()


def job_of(number: int, event_id: UUID) -> NewJob:
    """The job of a delivery."""
    key, now = DeliveryKey(event_id, CONSUMER, 1), datetime.now(UTC)
    data = seal(key=key, opened_at=now, payload_json=f'{{"owner":{number}}}', headers={})
    return NewJob(id=key.job_id, name="job", data=data, timestamp_ms=int(now.timestamp() * 1000))


# ── Without Homing ──────────────────────────────────────────────────────────────────────────────────────────────────


async def bare(database_url: str, events: dict[int, UUID], connections: int) -> float:
    """The statements of our worker over a pool, one transaction an event; how many seconds it took."""
    add = ADD.replace(":owner", "$1")
    left = iter(events.items())

    async def client(connection: asyncpg.Connection) -> None:
        for owner, event_id in left:
            async with connection.transaction():
                await connection.fetch(SETTLE.numbered, *SETTLE.arguments(_key(event_id) | {"generation": 1}))
                await connection.execute(add, owner)
                await connection.fetch(
                    FINISH_SETTLE.numbered, *FINISH_SETTLE.arguments(_key(event_id) | {"result": None})
                )

    pool = [await asyncpg.connect(database_url) for _ in range(connections)]
    began = time.perf_counter()
    await asyncio.gather(*map(client, pool))
    seconds = time.perf_counter() - began
    for connection in pool:
        await connection.close()
    return seconds


def _key(event_id: UUID) -> dict[str, object]:
    return {"event_id": event_id, "consumer": CONSUMER}


# ── With Homing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def effects_app(meter: Meter, settings: Settings, *, batch: bool) -> Homing:
    """One handler, for one event or for fifty."""
    app = Homing("bench")
    queue = app.queue("bench", concurrency=100)
    if batch:

        @queue.handler("job", on=Earned, batch=50)
        async def earned(events: Sequence[Earned], tx: Transaction[AsyncSession]) -> None:
            await tx.execute(text(ADD_ALL), {"owners": [event.owner for event in events]})
            for _ in events:
                meter.note()
    else:

        @queue.handler("job", on=Earned)
        async def earned_one(event: Earned, tx: Transaction[AsyncSession]) -> None:
            await tx.execute(text(ADD), {"owner": event.owner})
            meter.note()

    async def lifespan(provide: Provider) -> AsyncIterator[None]:
        engine = create_async_engine(settings.sqlalchemy_url, pool_size=CONNECTIONS, max_overflow=0)
        provide(async_sessionmaker(engine, expire_on_commit=False))
        yield
        await engine.dispose()

    app.lifespan(lifespan)
    return app


async def worker(database_url: str, redis_url: str, events: int, *, batch: bool) -> float:
    """Our worker, from its first effect to its last; how many seconds it took."""
    meter = Meter(events)
    settings = Settings(database_url=database_url, redis_url=redis_url, prefix="bull")
    app = effects_app(meter, settings, batch=batch)
    provider = Provider()
    assert app.open_resources is not None
    async with open_process(app, settings, "worker") as connections, app.open_resources(provider):
        running = Worker(app, settings, ledger=connections.ledger, engine=connections.engine, provider=provider)
        await running.start()
        watch = await meter.all_started()
        await running.stop(30)
    return watch.seconds[0]


# ── Steps in processes of their own ─────────────────────────────────────────────────────────────────────────────────


def step(contender: str, urls: tuple[str, str], ids: Path) -> float:
    """One contender's events a second."""
    database_url, redis_url = urls
    events: list[UUID] = [UUID(line) for line in ids.read_text().split()]
    asyncio.run(prepare(database_url, redis_url, events, with_jobs=contender in ("once", "batch")))
    parts = PROCESSES if contender == "clients" else 1
    command = [sys.executable, "-m", "benchmarks.effects", "--step", contender, *urls, str(ids)]
    running = [
        subprocess.Popen([*command, str(part)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for part in range(parts)
    ]
    seconds: list[float] = [json.loads(process.communicate()[0]) for process in running]
    return len(events) / max(seconds)


def run_step(contender: str, database_url: str, redis_url: str, ids: str, part: str) -> None:
    """A part of a contender's work; prints how long it took."""
    events = dict(enumerate(UUID(line) for line in Path(ids).read_text().split()))
    configure_logging("INFO", "json")
    if contender == "bare":
        seconds = asyncio.run(bare(database_url, events, CONNECTIONS))
    elif contender == "clients":
        own = {owner: event_id for owner, event_id in events.items() if owner % PROCESSES == int(part)}
        seconds = asyncio.run(bare(database_url, own, CONNECTIONS // PROCESSES))
    else:
        seconds = asyncio.run(worker(database_url, redis_url, len(events), batch=contender == "batch"))
    print(json.dumps(seconds))


async def make_schema(database_url: str) -> None:
    """Homing's tables."""
    connection = await asyncpg.connect(database_url)
    await migrate(connection, engine="redis")
    await connection.close()


def main() -> None:
    """Play, and print; the last line has the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        run_step(*options.step)
        return
    rates: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        ids = home / "ids"
        ids.write_text("\n".join(str(new_event_id()) for _ in range(options.events)))
        with EmbeddedPostgres(home / "postgres") as postgres, EmbeddedValkey(home / "valkey") as valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            asyncio.run(make_schema(postgres.url()))
            for _ in range(options.rounds):
                for contender in ("bare", "once", "clients", "batch"):
                    rates[contender].append(step(contender, (postgres.url(), valkey.url()), ids))
    middle = {contender: statistics.median(runs) for contender, runs in rates.items()}
    for contender, rate in middle.items():
        print(f"{contender:<9}{rate:>9,.0f} events/s ({min(rates[contender]):,.0f} to {max(rates[contender]):,.0f})")
    print(
        f"effects: once/bare={middle['once'] / middle['bare']:.2f} batch/clients={middle['batch'] / middle['clients']:.2f}"
    )


if __name__ == "__main__":
    main()
