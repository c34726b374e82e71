"""A small world for pages: a queue with a job in every state, and deliveries that are done, dead and pending."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from homing.config.settings import Settings
from homing.ids import DeliveryKey, JobId, new_token
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.port import ClaimRequest
from homing.queue.redis import RedisEngine

QUEUE = "work"
CONSUMER = "work.do"
ORDER = "order-1042"
TRACE = "0af7651916cd43dd8448eb211c80319c"

EVENT = UUID("01900000-0000-7000-8000-00000000000a")
PENDING = UUID("01900000-0000-7000-8000-00000000000b")
DEAD_JOB = DeliveryKey(EVENT, CONSUMER, 1).job_id
PENDING_JOB = DeliveryKey(PENDING, CONSUMER, 1).job_id

ROWS = """
INSERT INTO homing.queues (queue) VALUES ('work');
INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode)
VALUES ('order.placed', 'work.do', 'work', 'do', 'tx'), ('order.placed', 'mail.send', 'work', 'send', 'tx');
"""
RECORD = """
INSERT INTO homing.outbox_events (id, topic, aggregate_id, payload, headers, created_at, available_at, published_at)
SELECT $1, 'order.placed', $2, '{"total": 1042, "customer": {"id": 42, "password": "hunter2"}}', jsonb_build_object('traceId', $3::text), at, at, now()
FROM (SELECT now() - interval '2 s' AS at) recently
"""
DELIVER = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)
VALUES ($1, $2, 'work', 'do', $3, CASE WHEN $3::text IS NOT NULL THEN now() END)
"""
BURY = """
INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
VALUES ($1, 'work.do', 1, 'work', 'do', $2, 'failed', '{}', '{"class": "CardDeclined", "text": "no funds"}', 'f1', 3) RETURNING id
"""


@dataclass(frozen=True, slots=True)
class World:
    """Its servers, and the letter of the dead delivery."""

    engine: RedisEngine
    sql: asyncpg.Connection
    letter: int

    async def add(self, *ids: str, delay_seconds: float = 0.0, data: str = "{}", name: str = "do") -> None:
        """Jobs by their ids; those of deliveries have their data from the relay elsewhere."""
        jobs = [
            NewJob(id=JobId(each), name=name, data=data, timestamp_ms=0, delay_seconds=delay_seconds) for each in ids
        ]
        await self.engine.add(QUEUE, jobs)

    async def fail_next(
        self, reason: str = "CardDeclined: no funds", stack: str = "at capture", mark: str | None = None
    ) -> None:
        """The next job fails for good."""
        job = await self.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
        assert isinstance(job, ClaimedJob)
        await self.engine.fail(job, reason, stack=stack, mark=mark, keep=KeepRule(), claim_next=None)

    async def actions(self) -> list[tuple[str, str, int, str | None]]:
        """What people did: who, what, how many and why."""
        rows = await self.sql.fetch("SELECT actor, action, affected, reason FROM homing.operator_actions ORDER BY id")
        return [tuple(row) for row in rows]


@asynccontextmanager
async def world_on(settings: Settings) -> AsyncIterator[World]:
    """An event with a dead and a done delivery, one with a pending one, and their jobs: failed and delayed."""
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    sql = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        await sql.execute(ROWS)
        for event in (EVENT, PENDING):
            await sql.execute(RECORD, event, ORDER, TRACE)
        await sql.execute(DELIVER, EVENT, CONSUMER, "dead")
        await sql.execute(DELIVER, EVENT, "mail.send", "done")
        await sql.execute(DELIVER, PENDING, CONSUMER, None)
        world = World(engine, sql, await sql.fetchval(BURY, EVENT, DEAD_JOB))
        await world.add(DEAD_JOB)
        await world.fail_next(mark=f"dead:{world.letter}")
        await world.add(PENDING_JOB, delay_seconds=600)
        yield world
    finally:
        await sql.close()
        await engine.close()
