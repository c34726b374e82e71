"""The application that real processes run and crash: two handlers, one for each guarantee, that wait where a test can hit them.

A handler writes down that it runs, on a connection of its own, then waits until the gate that its event names is open.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from homing import Event, Homing, Job, Provider, Retry, Transaction, backoff
from homing.durations import milliseconds
from homing.worker import endings
from tests.waiting import until

TABLES = """
CREATE TABLE runs (at timestamptz DEFAULT clock_timestamp(), event_id uuid, pid integer, attempt integer);
CREATE TABLE gates (name text PRIMARY KEY);
CREATE TABLE effects (event_id uuid, pid integer);
"""
GATE_SECONDS = 60
LETTING_GO_SECONDS = 1.0


class Asked(Event, topic="crash.once", unrouted=True):
    """Handled in a transaction. `gate`: wait inside the run until it is open; `mood`: what else to do."""

    number: int = 0
    gate: str = ""
    mood: str = ""


class AskedLeast(Event, topic="crash.least", unrouted=True):
    """Handled without one."""

    number: int = 0
    gate: str = ""
    mood: str = ""


class Notes:
    """What a handler writes down outside its transaction."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def running(self, event_id: UUID, attempt: int) -> None:
        await self._pool.execute(
            "INSERT INTO runs (event_id, pid, attempt) VALUES ($1, $2, $3)", event_id, os.getpid(), attempt
        )

    async def effect(self, event_id: UUID) -> None:
        await self._pool.execute("INSERT INTO effects VALUES ($1, $2)", event_id, os.getpid())

    async def wait_for(self, gate: str) -> None:
        if gate:

            async def is_open() -> bool:
                return bool(await self._pool.fetchval("SELECT count(*) FROM gates WHERE name = $1", gate))

            await until(is_open, GATE_SECONDS, f"gate {gate}")


app = Homing("crash", retry=Retry(attempts=3, backoff=backoff.fixed(milliseconds(100))))


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    endings.LETTING_GO_SECONDS = LETTING_GO_SECONDS  # only in the processes: the deaf handler is given up soon
    engine = create_async_engine(app.settings.sqlalchemy_url)
    pool = await asyncpg.create_pool(app.settings.asyncpg_dsn, min_size=1)
    provide(async_sessionmaker(engine, expire_on_commit=False))
    provide(Notes(pool))
    yield
    pool.terminate()
    await engine.dispose()


once = app.queue("once", concurrency=4)
least = app.queue("least", concurrency=4)


@once.handler("do", on=Asked)
async def do_once(event: Asked, tx: Transaction[AsyncSession], notes: Notes, job: Job) -> None:
    await tx.execute(text("INSERT INTO effects VALUES (:id, :pid)"), {"id": event.event_id, "pid": os.getpid()})
    await notes.running(event.event_id, job.attempt)
    await notes.wait_for(event.gate)
    await tx.execute(text("SELECT 1"))


@least.handler("do", on=AskedLeast, at_least_once=True)
async def do_at_least_once(event: AskedLeast, notes: Notes, job: Job) -> None:
    await notes.running(event.event_id, job.attempt)
    if event.mood == "deaf":
        await ignore_being_told()
    if event.mood == "blocking":
        time.sleep(GATE_SECONDS)  # noqa: ASYNC251 - the mistake that is tested
    await notes.wait_for(event.gate)
    await notes.effect(event.event_id)


async def ignore_being_told() -> None:
    """What no handler should do: go on after being cancelled."""
    deadline = time.monotonic() + GATE_SECONDS
    while time.monotonic() < deadline:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
