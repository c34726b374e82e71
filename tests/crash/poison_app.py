"""The application whose jobs end processes: poison, bystanders that run beside it, and work in child processes.

Handlers note that they run, and wait at gates: rows for those that have a database, files for those that have none.
"""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from homing import Event, Homing, Job, Provider, Retry, Transaction, backoff
from homing.durations import milliseconds
from tests.crash.least_app import GATE_SECONDS, Notes
from tests.waiting import wait_until


class Bystander(Event, topic="poison.bystander", unrouted=True):
    """Runs beside the poison, in a transaction, until the gate "hold" is open."""


class Poison(Event, topic="poison.poison", unrouted=True):
    """Kills its process once the gate "strike" is open."""


class Picture(Event, topic="poison.picture", unrouted=True):
    """Drawn in a child process: writes its process id to `note`, then waits until `gate` is there."""

    note: Path
    gate: Path
    dies: bool = False


app = Homing("poison", retry=Retry(attempts=3, backoff=backoff.fixed(milliseconds(100))))


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    engine = create_async_engine(app.settings.sqlalchemy_url)
    pool = await asyncpg.create_pool(app.settings.asyncpg_dsn, min_size=1)
    provide(async_sessionmaker(engine, expire_on_commit=False))
    provide(Notes(pool))
    yield
    pool.terminate()
    await engine.dispose()


orders = app.queue("orders", concurrency=4)
pictures = app.queue("pictures", concurrency=2)


@orders.handler("bystander", on=Bystander)
async def stand_by(event: Bystander, tx: Transaction[AsyncSession], notes: Notes, job: Job) -> None:
    await tx.execute(text("INSERT INTO effects VALUES (:id, :pid)"), {"id": event.event_id, "pid": os.getpid()})
    await notes.running(event.event_id, job.attempt)
    await notes.wait_for("hold")


@orders.handler("poison", on=Poison, at_least_once=True)
async def kill_the_process(event: Poison, notes: Notes, job: Job) -> None:
    await notes.running(event.event_id, job.attempt)
    await notes.wait_for("strike")
    os.kill(os.getpid(), signal.SIGKILL)


@pictures.handler("draw", on=Picture, at_least_once=True, cpu=True)
def draw(event: Picture) -> int:
    event.note.write_text(f"{os.getpid()}\n", encoding="ascii")
    wait_until(event.gate.exists, GATE_SECONDS, "the gate")
    if event.dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()
