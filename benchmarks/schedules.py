"""Many schedules: how long until several processes that start at once have declared all of them, and until they are back after a flush.

Run with `python -m benchmarks.schedules [schedules] [processes]` from the root of the repository (10,000 by 4 unless said otherwise). Half of them
have patterns in several zones, half have intervals. It ends with an error if there are not exactly so many schedules, each with one tick.
"""

import asyncio
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from redis import Redis

from benchmarks.flush import prepare
from homing import Homing, Tick
from homing.config.settings import Settings
from homing.durations import hours
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.ledger.ledger import Ledger
from homing.queue.redis import RedisEngine
from homing.relay import QueueWatch, register
from homing.scheduler import Keeper, declare_schedules

QUEUE = "bench"
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Ho_Chi_Minh", "Australia/Lord_Howe")


def bench_app(schedules: int) -> Homing:
    """An application with so many schedules of one handler."""
    app = Homing("bench")
    queue = app.queue(QUEUE)

    async def report(tick: Tick) -> None: ...

    queue.handler("report", on=Tick, at_least_once=True)(report)
    for number in range(schedules):
        name = f"tenant-{number}"
        if number % 2:
            queue.schedule(name, every=hours(6))(report)
        else:
            queue.schedule(name, cron=f"{number % 60} {number % 24} * * *", zone=ZONES[number % len(ZONES)])(report)
    return app


def declare_in_a_process(database_url: str, redis_url: str, schedules: int, start: Barrier) -> None:
    """What a worker does with its schedules when it starts, all of them at once."""
    asyncio.run(_declare(database_url, redis_url, schedules, start))


async def _declare(database_url: str, redis_url: str, schedules: int, start: Barrier) -> None:
    app, ledger, engine = bench_app(schedules), _ledger(database_url), RedisEngine(redis_url, prefix="bench")
    await ledger.open()
    await engine.open()
    await register(ledger, app.routes, app.queues)
    await asyncio.to_thread(start.wait)
    begun = time.process_time()
    await declare_schedules(ledger, engine, app.schedules)
    print(f"one process: {time.process_time() - begun:.1f} s of CPU")
    await engine.close()
    await ledger.close()


def _ledger(database_url: str) -> Ledger:
    return Ledger(database_url, engine="redis", application="bench")


async def look(database_url: str, redis_url: str, schedules: int) -> None:
    """What a look costs, and how long giving all back takes."""
    ledger, engine = _ledger(database_url), RedisEngine(redis_url, prefix="bench")
    await ledger.open()
    await engine.open()
    await QueueWatch(ledger, engine).tick()
    counts = await engine.counts(QUEUE)
    held = len(await engine.due_times(QUEUE))
    print(f"{held:,} schedules with {counts.waiting + counts.delayed:,} ticks")
    if (held, counts.waiting + counts.delayed) != (schedules, schedules):
        sys.exit("that is not one tick for each schedule")
    keeper = Keeper(ledger, engine)
    await keeper.keep(QUEUE)
    begun = time.process_time()
    await keeper.keep(QUEUE)
    print(f"a look at all of them, every five seconds, costs {time.process_time() - begun:.3f} s of CPU")
    with Redis.from_url(redis_url) as client:
        client.flushall()
    begun = time.perf_counter()
    await QueueWatch(ledger, engine, restore=keeper.restore).tick()
    back = len(await engine.due_times(QUEUE))
    print(
        f"after FLUSHALL {back:,} are back in {time.perf_counter() - begun:.1f} s, before any job is dispatched again"
    )
    if back != schedules:
        sys.exit("some are missing")
    await engine.close()
    await ledger.close()


def measure(settings: Settings, schedules: int, processes: int) -> None:
    """Let them start together, and wait for the last."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes + 1)
    urls = settings.asyncpg_dsn, settings.redis_dsn
    starting = [context.Process(target=declare_in_a_process, args=(*urls, schedules, start)) for _ in range(processes)]
    for process in starting:
        process.start()
    start.wait()
    begun = time.perf_counter()
    for process in starting:
        process.join()
    if any(process.exitcode for process in starting):
        sys.exit("a process failed")
    print(f"{schedules:,} schedules declared by {processes} processes at once in {time.perf_counter() - begun:.1f} s")
    asyncio.run(look(*urls, schedules))


def main() -> None:
    """Start both servers, measure, stop them."""
    schedules = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    with tempfile.TemporaryDirectory() as folder:
        postgres, valkey = EmbeddedPostgres(Path(folder, "postgres")), EmbeddedValkey(Path(folder, "valkey"))
        with postgres, valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            settings = Settings(database_url=postgres.url(), redis_url=valkey.url())
            asyncio.run(prepare(postgres.url()))
            measure(settings, schedules, processes)


if __name__ == "__main__":
    main()
