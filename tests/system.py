"""A whole Homing in the test's own process: ledger, engine, relay and worker on real servers."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from homing import Event, Homing, Provider, record
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.ledger.ledger import Ledger
from homing.processes.relaying import RelayLoops
from homing.queue.browse import SteeredEngine
from homing.queue.job import ClaimedJob
from homing.queue.port import Finished
from homing.queue.redis import RedisEngine
from homing.relay import push_settings, register
from homing.scheduler import declare_schedules
from homing.worker import Worker
from homing.worker.slot import Slot
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class System:
    """What a test may look at and act on."""

    app: Homing
    settings: Settings
    ledger: Ledger
    engine: SteeredEngine
    worker: Worker | None
    relay: RelayLoops | None
    sql: asyncpg.Connection

    async def record(self, *events: Event) -> None:
        """Record events in one committed transaction."""
        async with self.sql.transaction():
            await record(self.sql, *events)

    async def deliveries(self) -> dict[str, str | None]:
        """The outcome of every delivery, by consumer (the last one counts where a consumer has several)."""
        rows = await self.sql.fetch("SELECT consumer, outcome FROM homing.deliveries ORDER BY opened_at")
        return {row["consumer"]: row["outcome"] for row in rows}

    async def unsettled(self) -> int:
        """Events not routed plus deliveries not settled."""
        value: int = await self.sql.fetchval(
            "SELECT (SELECT count(*) FROM homing.outbox_events WHERE published_at IS NULL)"
            " + (SELECT count(*) FROM homing.deliveries WHERE settled_at IS NULL)"
        )
        return value

    async def settled(self, timeout_seconds: float = 10) -> None:
        """Wait until every event is routed and every delivery is settled."""

        async def nothing_left() -> bool:
            return await self.unsettled() == 0

        await until(nothing_left, timeout_seconds, "everything is settled")

    async def letters(self) -> list[dict[str, Any]]:
        """The dead letters, in order."""
        return [dict(row) for row in await self.sql.fetch("SELECT * FROM homing.dead_letters ORDER BY id")]


def quick(settings: Settings, **changes: Any) -> Settings:
    """The settings with short times, so that a test need not wait for what it does not test."""
    short: dict[str, Any] = {
        "lease": seconds(3),
        "beat": milliseconds(500),
        "rescue": seconds(1),
        "look": milliseconds(100),
        "look_grace": seconds(0),
        "shutdown_grace": seconds(5),
    }
    return settings.model_copy(update=short | changes)


def with_sessions(app: Homing, settings: Settings, **resources: object) -> Homing:
    """Give the app a lifespan that provides SQLAlchemy sessions on the ledger's database, and `resources` by their own type."""

    async def lifespan(provide: Provider) -> AsyncIterator[None]:
        engine = create_async_engine(settings.sqlalchemy_url, pool_size=16)
        provide(async_sessionmaker(engine, expire_on_commit=False))
        for resource in resources.values():
            provide(resource)
        yield
        await engine.dispose()

    app.lifespan(lifespan)
    return app


class NoMore:
    """Whose slot it is that claims nothing more."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.together = 1

    def returned(self, count: int, *, waiting: bool = False) -> None:
        """Nothing to be done."""

    def ask(self, ends: int) -> None:
        """Nothing."""

    def heard(self, wanted: object) -> None:
        """Nothing to be done."""

    def left(self, ends: Sequence[Finished | None], *, slots: int = 0, wanted: object = None) -> None:
        """Nothing to be done."""


async def execute(worker: Worker, job: ClaimedJob) -> None:
    """Let a worker run one job that the test has claimed, in this task and alone, from its look at the job to its end."""
    executor = worker._executor  # what it runs and when is the test's to say
    executor._leases.hold([job.lease])
    try:
        await executor._execute(Slot(job, NoMore(job.lease.queue), time.monotonic()))
    finally:
        executor._leases.drop([job.lease])


@asynccontextmanager
async def running(
    app: Homing, settings: Settings, *, worker: bool = True, relay: bool = True, engine: SteeredEngine | None = None
) -> AsyncIterator[System]:
    """Start the parts, and stop them in order at the end; a worker that leaves runs behind fails the test."""
    async with AsyncExitStack() as stack:
        app.use(settings)
        app.load()
        ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
        await ledger.open()
        stack.push_async_callback(ledger.close)
        engine = engine or RedisEngine(settings.redis_dsn, prefix=settings.prefix or app.name)
        await engine.open()
        stack.push_async_callback(engine.close)
        sql = await asyncpg.connect(settings.asyncpg_dsn)
        stack.push_async_callback(sql.close)
        await register(ledger, app.routes, app.queues)
        await push_settings(ledger, engine, app.queues)
        provider = Provider()
        if app.open_resources is not None:
            await stack.enter_async_context(app.open_resources(provider))
        loops = RelayLoops(app, settings, ledger=ledger, engine=engine) if relay else None
        if loops is not None:
            await loops.start()
            stack.push_async_callback(loops.stop)
        if worker:
            await declare_schedules(ledger, engine, app.schedules)
        workers = Worker(app, settings, ledger=ledger, engine=engine, provider=provider) if worker else None
        if workers is not None:
            await workers.start()
            stack.push_async_callback(workers.stop, settings.shutdown_grace.total_seconds())
        yield System(app, settings, ledger, engine, workers, loops, sql)
