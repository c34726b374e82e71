"""What breaks in the engine and beside it: counters that start again, options that swallow jobs, and what a loss costs."""

import json
from typing import Any
from uuid import uuid4

import asyncpg
from bullmq import Queue  # type: ignore[import-untyped]  # it ships no types
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Transaction, record
from homing.config.settings import Settings
from homing.embedded import EmbeddedValkey
from homing.ids import JobId
from homing.ledger.ledger import Ledger
from homing.ledger.statements import IDENTIFY, LOOK, SWEEP
from homing.queue.job import NewJob
from homing.queue.port import Refused
from homing.queue.redis import RedisEngine
from homing.queue.redis.adding import read_add
from tests.system import quick, running, with_sessions
from tests.waiting import until

QUEUE = "work"
ADD_EFFECT = text("INSERT INTO effects VALUES (:event_id)")


class Asked(Event, topic="breaks.engine", unrouted=True):
    number: int = 0


def once_app(settings: Settings) -> Homing:
    app = Homing("test")

    @app.queue(QUEUE).handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD_EFFECT, {"event_id": event.event_id})

    return with_sessions(app, settings)


async def test_counter_that_starts_again_is_no_duplicate(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """After FLUSHALL another producer's jobs are numbered from 1 again: the new job 1 runs, although an old one was done."""
    async with running(once_app(disposable_settings), quick(disposable_settings)) as system:
        await system.sql.execute("CREATE TABLE effects (event_id uuid)")
        for done in (1, 2):
            queue = Queue(QUEUE, {"connection": disposable_valkey.url(), "prefix": "own"})
            job = await queue.add("do", {"eventId": "0" * 32, "traceId": "t", "payload": {"number": done}})
            await queue.close()
            assert job.id == "1"

            async def ran(number: int = done) -> bool:
                return bool(await system.sql.fetchval("SELECT count(*) FROM effects") == number)

            await until(ran, what=f"job 1 ran in history {done}")
            with Redis.from_url(disposable_valkey.url()) as client:
                client.flushall()
        assert await system.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE origin = 'job'") == 2


async def test_no_option_lets_one_delivery_swallow_another(settings: Settings) -> None:
    """BullMQ's de-duplication never reaches a delivery's job, and an answer that names another job is a refusal."""
    async with running(once_app(settings), quick(settings), worker=False) as system:
        await system.sql.execute(
            "UPDATE homing.subscriptions SET options = options || $1::text::jsonb",
            json.dumps({"deduplication": {"id": "same"}, "de": {"id": "same"}}),
        )
        await system.record(Asked(), Asked())

        async def both() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 2

        await until(both, what="each delivery has its job")
    job = NewJob(id=JobId("mine"), name="do", data="{}", timestamp_ms=0)
    answer = read_add(job, b"another")
    assert isinstance(answer, Refused)
    assert "another" in answer.error


async def test_event_of_a_slow_transaction_is_not_passed_over(settings: Settings) -> None:
    """Recorded first and committed last: it arrives after its younger neighbours, because nobody keeps a place in the order of ids."""
    async with running(once_app(settings), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE effects (event_id uuid)")
        slow = await asyncpg.connect(settings.asyncpg_dsn)
        try:
            transaction = slow.transaction()
            await transaction.start()
            await record(slow, Asked(number=1))
            await system.record(Asked(number=2))
            await system.settled()
            await transaction.commit()
        finally:
            await slow.close()
        await system.settled()
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == 2


async def test_sweeper_that_went_silent_is_followed_by_another(settings: Settings) -> None:
    """The right to sweep belongs to one process at a time, and ends by itself: a process that has it and does nothing keeps nobody."""
    async with running(once_app(settings), quick(settings), worker=False, relay=False) as system:
        terms = {"queue": QUEUE, "lease_seconds": 10.0}
        first, second = uuid4(), uuid4()
        assert await system.ledger.fetch(SWEEP, sweeper=first, **terms)
        assert await system.ledger.fetch(SWEEP, sweeper=first, **terms)
        assert not await system.ledger.fetch(SWEEP, sweeper=second, **terms)
        await system.sql.execute("UPDATE homing.queues SET sweeper_until = sweeper_until - interval '11 s'")
        assert await system.ledger.fetch(SWEEP, sweeper=second, **terms)
        assert not await system.ledger.fetch(SWEEP, sweeper=first, **terms)


async def test_rows_of_ours_lock_no_rows_of_others(settings: Settings) -> None:
    """No table refers to another by a foreign key: recording and settling take no lock on a row that somebody else is busy with."""
    sql = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        assert (
            await sql.fetchval(
                "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'homing'::regnamespace"
            )
            == 0
        )
    finally:
        await sql.close()


UNSETTLED = 5_000
FILL = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, epoch, check_at)
SELECT gen_random_uuid(), 'work.do', 'work', 'do', 1, now() + interval '1 h' FROM generate_series(1, $1::int)
"""


async def test_loss_is_one_number(settings: Settings) -> None:
    """However many deliveries are unsettled, noticing a loss changes the queue's epoch and none of them, and makes all of them due."""
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()
    sql = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        await sql.execute(
            "INSERT INTO homing.queues (queue, epoch, changed_at) VALUES ('work', 1, now() - interval '1 h')"
        )
        await sql.execute(FILL, UNSETTLED)
        await sql.execute("ANALYZE homing.deliveries")
        written = "SELECT count(*) FROM homing.deliveries WHERE xmin = (SELECT xmin FROM homing.deliveries LIMIT 1)"
        plan = await explain(sql, IDENTIFY.numbered, *IDENTIFY.arguments({"queue": "work", "identity": "another"}))
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60
        assert await sql.fetchval(written) == UNSETTLED
        assert await sql.fetchval("SELECT epoch FROM homing.queues") == 2
        due = await ledger.fetch(LOOK, queue="work", epoch=2, page=UNSETTLED * 2, grace_seconds=0.0)
        assert len(due) == UNSETTLED
    finally:
        await sql.close()
        await ledger.close()


async def explain(sql: asyncpg.Connection, statement: str, *arguments: Any) -> dict[str, Any]:
    """Run a statement and return what it touched."""
    told = await sql.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *arguments)
    plan: dict[str, Any] = json.loads(told)[0]["Plan"]
    return plan


async def test_look_never_walks_a_list(disposable_settings: Settings, disposable_valkey: EmbeddedValkey) -> None:
    """A thousand jobs in a crowded queue are looked at with three constant-time reads each, and with nothing else."""
    engine = RedisEngine(disposable_valkey.url(), prefix="own")
    await engine.open()
    try:
        ids = [JobId(f"job-{number}") for number in range(3_000)]
        await engine.add(QUEUE, [NewJob(id=one, name="do", data="{}", timestamp_ms=0) for one in ids])
        with Redis.from_url(disposable_valkey.url()) as client:
            client.config_resetstat()
            assert all(trace.exists for trace in await engine.inspect(QUEUE, ids[::3]))
            told = client.info("commandstats")
    finally:
        await engine.close()
    calls = {name.removeprefix("cmdstat_"): stats["calls"] for name, stats in told.items()}
    asked = {name: number for name, number in calls.items() if name in ("hmget", "exists", "zscore")}
    assert asked == {"hmget": 1000, "exists": 1000, "zscore": 1000}
    walks = {"lrange", "lpos", "zrange", "zscan", "keys", "scan", "evalsha", "eval", "hgetall"}
    assert not walks & calls.keys()
