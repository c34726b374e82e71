"""Our side of `make bench-quick`, one step a process: `add`, `relay` and `drain`, each ending with one line of JSON.

    python -m benchmarks.quick_homing add|relay|drain <mode> <jobs> <database url> <redis url>

Modes: `foreign` (jobs that no relay made, handler at least once), `limited` (the same on a queue with a limit that never binds),
`plain` (deliveries, at least once), `once` (deliveries with `Transaction`). Lines are logged as a worker does by default: one a run, as
JSON, to stderr.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import asyncpg
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from benchmarks.quick_meter import Meter, Watch, report
from homing import Event, Homing, Provider, RateLimit, Transaction, record
from homing.config.logs import configure_logging
from homing.config.settings import Settings
from homing.events.codec import dump_json
from homing.ids import JobId
from homing.metrics import Metrics
from homing.processes.memory import release_startup_memory
from homing.processes.opening import open_process
from homing.queue.job import NewJob
from homing.queue.port import Accepted
from homing.queue.redis import RedisEngine
from homing.relay import Dispatcher, QueueWatch, Relay
from homing.service import Progress
from homing.worker import Worker

CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "400"))
"""It drains fastest with this one: four whole groups."""
CONNECTIONS, ONCE_CONCURRENCY = 16, 100
NEVER_BINDS = RateLimit(10**9, per=timedelta(seconds=1))
PAGE = 500


class Plain(Event, topic="bench.plain", unrouted=True):
    """Handled without a transaction."""

    user_id: int
    kind: str
    amount: int


class Once(Event, topic="bench.once", unrouted=True):
    """Handled in one."""

    user_id: int
    kind: str
    amount: int


def bench_app(meter: Meter, settings: Settings, mode: str) -> Homing:
    """An app of one handler that does nothing but count."""
    app = Homing("bench")
    queue = app.queue(
        "bench",
        concurrency=ONCE_CONCURRENCY if mode == "once" else CONCURRENCY,
        limit=NEVER_BINDS if mode == "limited" else None,
    )
    if mode == "once":

        @queue.handler("job", on=Once)
        async def once(event: Once, tx: Transaction[AsyncSession]) -> None:
            del event, tx
            meter.note()

        async def lifespan(provide: Provider) -> AsyncIterator[None]:
            engine = create_async_engine(settings.sqlalchemy_url, pool_size=CONNECTIONS, max_overflow=0)
            provide(async_sessionmaker(engine, expire_on_commit=False))
            yield
            await engine.dispose()

        app.lifespan(lifespan)
    else:

        @queue.handler("job", on=Plain, at_least_once=True)
        async def plain(event: Plain) -> None:
            del event
            meter.note()

    return app


async def add(settings: Settings, jobs: int, _: str) -> None:
    """Add jobs as a service that knows BullMQ and not Homing would: an envelope without a delivery."""
    engine = RedisEngine(settings.redis_dsn, prefix="bull")
    await engine.open()
    now_ms = int(time.time() * 1000)
    new = [
        NewJob(id=JobId(f"j-{number}"), name="job", data=_foreign(number), timestamp_ms=now_ms)
        for number in range(jobs)
    ]
    watch = Watch()
    for start in range(0, jobs, PAGE):
        answers = await engine.add("bench", new[start : start + PAGE])
        assert all(answer is Accepted.ACCEPTED for answer in answers)
    report(watch, jobs)
    await engine.close()


async def relay(settings: Settings, jobs: int, mode: str) -> None:
    """Commit events, then measure the relay alone until their jobs are in Redis."""
    kind = Once if mode == "once" else Plain
    await _record(settings, [kind(user_id=number, kind="order.created", amount=4200) for number in range(jobs)])
    async with open_process(bench_app(Meter(0), settings, mode), settings, "relay") as connections:
        queues, metrics = QueueWatch(connections.ledger, connections.engine), Metrics("bench")
        relay = Relay(
            connections.ledger,
            queues,
            Dispatcher(connections.ledger, connections.engine, queues, metrics),
            page=settings.relay_batch,
            metrics=metrics,
        )
        await queues.tick()
        watch = Watch()
        while await relay.tick() is Progress.AGAIN:
            pass
        report(watch, jobs)
        counts = await connections.engine.counts("bench")
        assert counts.waiting == jobs, counts


async def drain(settings: Settings, jobs: int, mode: str) -> None:
    """One worker process, from its first run to the start of the last."""
    meter = Meter(jobs)
    app = bench_app(meter, settings, mode)
    async with open_process(app, settings, "worker") as connections, _resources(app) as provider:
        worker = Worker(app, settings, ledger=connections.ledger, engine=connections.engine, provider=provider)
        release_startup_memory()
        await worker.start()
        watch = await meter.all_started()
        await worker.stop(10)
        counts = await connections.engine.counts("bench")
        assert counts.waiting == counts.active == 0, counts
        report(watch, jobs - 1)


def _foreign(number: int) -> str:
    payload = {"userId": number, "kind": "order.created", "amount": 4200}
    return dump_json({"eventId": str(uuid4()), "traceId": uuid4().hex, "payload": payload})


async def _record(settings: Settings, events: Sequence[Event]) -> None:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        async with connection.transaction():
            for start in range(0, len(events), PAGE):
                await record(connection, *events[start : start + PAGE])
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


@asynccontextmanager
async def _resources(app: Homing) -> AsyncIterator[Provider]:
    provider = Provider()
    if app.open_resources is None:
        yield provider
        return
    async with app.open_resources(provider):
        yield provider


STEPS: dict[str, Callable[[Settings, int, str], Coroutine[None, None, None]]] = {
    "add": add,
    "relay": relay,
    "drain": drain,
}


def main() -> None:
    step, mode, jobs, database_url, redis_url = sys.argv[1:]
    configure_logging("INFO", "json")
    settings = Settings(database_url=database_url, redis_url=redis_url, prefix="bull")
    asyncio.run(STEPS[step](settings, int(jobs), mode))


if __name__ == "__main__":
    main()
