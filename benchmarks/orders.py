"""What one order costs from POST to points: Redis commands, PostgreSQL statements and commits, and how large the processes are afterwards.

Run with `python -m benchmarks.orders` from the root of the repository. It plays the demonstration without killing anybody. Nothing is
asserted: numbers belong to a machine.
"""

import asyncio
import re
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil
from redis.asyncio import Redis
from redis.asyncio.client import Monitor

from homing.embedded import EmbeddedPostgres, Servers
from shop.trial.customers import Customers, purchases
from shop.trial.facts import read_progress
from shop.trial.opening import open_stage
from shop.trial.options import Trial
from shop.trial.stage import Stage

ORDERS = 60
PATIENCE_SECONDS = 60
IDLE_SECONDS = 5.0

_STATEMENT = re.compile(r" LOG:  (?:statement|execute [^:]+): (\S+)")


@dataclass(frozen=True, slots=True)
class Reading:
    """What both servers were asked."""

    commands: int
    statements: int
    commits: int


async def main() -> None:
    """Play, and print a table: with the cost of doing nothing subtracted."""
    trial = Trial(orders=ORDERS)
    with tempfile.TemporaryDirectory(prefix="homing-bench-") as folder:
        async with open_stage(trial, Path(folder), lambda _: None) as stage:
            await _log_statements(stage.servers)
            idle = await _measure(stage, asyncio.sleep(IDLE_SECONDS))
            started = asyncio.get_running_loop().time()
            busy = await _measure(stage, _play(stage, trial))
            seconds = asyncio.get_running_loop().time() - started
            _print(idle, busy, seconds, stage)


async def _measure(stage: Stage, work: Awaitable[None]) -> Reading:
    """What both servers were asked while `work` was done; commands inside scripts do not count, they cost no round trip."""
    before = await _read_database(stage.servers)
    async with Redis.from_url(stage.servers.redis_url) as redis, redis.monitor() as monitor:
        counting = asyncio.create_task(_count_commands(monitor))
        await work
        counting.cancel()
        (counted,) = await asyncio.gather(counting)
    after = await _read_database(stage.servers)
    return Reading(counted, after.statements - before.statements, after.commits - before.commits)


async def _count_commands(monitor: Monitor) -> int:
    seen = 0
    try:
        while True:
            command = await monitor.next_command()
            seen += command["client_type"] != "lua"
    except asyncio.CancelledError:
        return seen


async def _play(stage: Stage, trial: Trial) -> None:
    wanted = purchases(trial)
    connection = await asyncpg.connect(stage.servers.database_url)
    try:
        customers = Customers(find_shop=lambda: next(iter(stage.api_urls), None))
        await customers.order_everything(wanted, lambda: None)
        for _ in range(PATIENCE_SECONDS):
            await asyncio.sleep(1)
            if (await read_progress(connection, wanted)).finished(len(wanted)):
                return
        raise TimeoutError(f"not everything was finished within {PATIENCE_SECONDS} s")
    finally:
        await connection.close()


async def _log_statements(servers: Servers) -> None:
    connection = await asyncpg.connect(servers.database_url)
    try:
        await connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()
    await asyncio.sleep(1)


async def _read_database(servers: Servers) -> Reading:
    connection = await asyncpg.connect(servers.database_url)
    try:
        commits = await connection.fetchval(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
    finally:
        await connection.close()
    return Reading(0, await asyncio.to_thread(_count_statements, servers.postgres), commits)


def _count_statements(server: EmbeddedPostgres | None) -> int:
    """Statements of clients in the server's log, BEGIN and COMMIT included: each of them is a round trip."""
    if server is None:
        return 0
    return sum(
        len(_STATEMENT.findall(log.read_text(encoding="utf-8", errors="replace")))
        for log in server.home.rglob("server.log")
    )


def _print(idle: Reading, busy: Reading, seconds: float, stage: Stage) -> None:
    print(f"{ORDERS} orders of 4 deliveries in {seconds:.1f} s; the cost of idling is subtracted")
    for name in ("commands", "statements", "commits"):
        per_second = getattr(idle, name) / IDLE_SECONDS
        per_order = (getattr(busy, name) - per_second * seconds) / ORDERS
        print(f"{name:<12}{per_order:>8.1f} per order{per_second:>8.1f} per second when idle")
    for child in stage.children:
        memory = psutil.Process(child.process.pid).memory_full_info()
        pss = getattr(memory, "pss", memory.rss)  # shared pages by share; Linux only
        print(f"{child.name:<12}{memory.rss / 2**20:>8.1f} MiB resident, {pss / 2**20:.1f} with shared pages by share")


if __name__ == "__main__":
    asyncio.run(main())
