"""PostgreSQL goes away for some seconds while jobs flow: nothing is claimed meanwhile, and nobody pays for it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

import asyncpg
import pytest
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, Transaction
from homing.config.settings import Settings
from homing.durations import seconds
from homing.embedded import EmbeddedPostgres
from tests.own_servers import fresh_ledger, own_postgres
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

JOBS = 40
AWAY_SECONDS = 4.0


class Asked(Event, topic="away.once", unrouted=True):
    number: int = 0


class AskedLeast(Event, topic="away.least", unrouted=True):
    number: int = 0


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with own_postgres(tmp_path_factory.mktemp("away")) as server:
        yield server


@pytest.fixture
def on_mortal(mortal: EmbeddedPostgres, redis_url: str, redis_prefix: str) -> Settings:
    """Settings for a ledger that the test may take away."""
    return Settings(database_url=fresh_ledger(mortal), redis_url=redis_url, prefix=redis_prefix)


class Flow:
    """What two handlers do: count, and wait until the test lets one more of them through."""

    def __init__(self) -> None:
        self.attempts: Counter[int] = Counter()
        self.begun = 0
        self.may_pass = asyncio.Semaphore(0)

    async def pass_through(self, job: Job) -> None:
        self.begun += 1
        self.attempts[job.attempt] += 1
        await self.may_pass.acquire()


def app_of(flow: Flow) -> Homing:
    app = Homing("away")

    @app.queue("once", concurrency=4).handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession], job: Job) -> None:
        await tx.execute(text("INSERT INTO effects VALUES (:id)"), {"id": event.event_id})
        await flow.pass_through(job)

    @app.queue("least", concurrency=4).handler("do", on=AskedLeast, at_least_once=True)
    async def do_least(event: AskedLeast, job: Job) -> None:
        await flow.pass_through(job)

    return app


async def passed(system: System) -> int:
    count: int = await system.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE outcome = 'done'")
    return count


@pytest.mark.parametrize("immediate", [False, True], ids=["fast", "immediate"])
async def test_jobs_wait_for_the_ledger_and_pay_nothing(
    on_mortal: Settings, mortal: EmbeddedPostgres, caplog: pytest.LogCaptureFixture, *, immediate: bool
) -> None:
    """No attempt is spent, starts stay few, claims stop and begin again by themselves, one line tells of it, and every job is done."""
    caplog.set_level(logging.INFO)
    flow = Flow()
    async with running(with_sessions(app_of(flow), on_mortal), quick(on_mortal, shutdown_grace=seconds(1))) as system:
        worker = system.worker
        assert worker is not None
        await system.sql.execute("CREATE TABLE effects (event_id uuid)")
        for number in range(JOBS):
            await system.record(Asked(number=number), AskedLeast(number=number))
        await until(lambda: flow.begun == 8, what="all slots are taken")
        for _ in range(10):
            flow.may_pass.release()

        async def some_are_done() -> bool:
            return await passed(system) >= 10

        await until(some_are_done, what="ten are done")
        assert worker.health().ready
        await asyncio.to_thread(mortal.stop, immediate=immediate)
        for _ in range(8):
            flow.may_pass.release()  # they end, and find no ledger to settle in
        await until(lambda: not worker.health().ready, what="the worker takes no more jobs")
        begun, gone_at = flow.begun, asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() > gone_at + AWAY_SECONDS, what="a while has passed")
        assert worker.health().live
        assert "the ledger does not answer" in worker.health().reasons
        assert flow.begun == begun, "a handler began without a ledger"
        await asyncio.to_thread(mortal.start)
        for _ in range(1000):
            flow.may_pass.release()
        after = await asyncpg.connect(on_mortal.asyncpg_dsn)

        async def all_done() -> bool:
            return not await after.fetchval(
                "SELECT count(*) FROM homing.deliveries WHERE outcome IS DISTINCT FROM 'done'"
            )

        await until(all_done, 40, "every job is done")
        await until(lambda: worker.health().ready, 10, "the worker takes jobs again")
        assert await after.fetchval("SELECT count(*) FROM homing.deliveries") == 2 * JOBS
        assert await after.fetchval("SELECT count(*) FROM effects") == JOBS
        assert await after.fetchval("SELECT count(DISTINCT event_id) FROM effects") == JOBS
        assert await after.fetchval("SELECT count(*) FROM homing.dead_letters") == 0
        await after.close()
    assert set(flow.attempts) == {1}
    assert most_starts(on_mortal) <= 4
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("ledger: ")]
    assert len([line for line in said if "does not answer" in line]) == 1, said
    assert said[-1] == "ledger: the server is back"
    assert len(said) == 2


async def test_transaction_cut_while_its_handler_uses_it_spends_no_attempt(settings: Settings) -> None:
    """The handler's own statement meets the lost connection first: the error is its own, and still not its fault."""
    app = Homing("away")
    attempts: list[int] = []
    process_ids: asyncio.Queue[int] = asyncio.Queue()

    @app.queue("once").handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession], job: Job) -> None:
        attempts.append(job.attempt)
        if len(attempts) == 1:
            process_ids.put_nowait((await tx.execute(text("SELECT pg_backend_pid()"))).scalar_one())
            await tx.execute(text("SELECT pg_sleep(30)"))

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await system.record(Asked())
        async with asyncio.timeout(10):
            process_id = await process_ids.get()
        await system.sql.fetchval("SELECT pg_terminate_backend($1)", process_id)
        await system.settled()
        assert attempts == [1, 1]
        assert await system.deliveries() == {"once.do": "done"}


def most_starts(settings: Settings) -> int:
    """How often the job that was started most was started, as the engine counted it."""
    with Redis.from_url(settings.redis_dsn) as client:
        jobs = [
            key for key in client.scan_iter(match=f"{settings.prefix}:*", count=1000) if client.type(key) == b"hash"
        ]
        return max(int(client.hget(key, "ats") or 0) for key in jobs)
