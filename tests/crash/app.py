"""The application that real processes run and crash: two handlers, one for each guarantee, that wait where a test can hit them."""

import os
from collections.abc import AsyncIterator

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from homing import Event, Job, Provider, Transaction
from tests.crash.least_app import GATE_SECONDS, TABLES, AskedLeast, Notes, new_app, notes_for

__all__ = ["GATE_SECONDS", "TABLES", "Asked", "AskedLeast", "Notes", "app"]


class Asked(Event, topic="crash.once", unrouted=True):
    """Handled in a transaction. `gate`: wait inside the run until it is open; `mood`: what else to do."""

    number: int = 0
    gate: str = ""
    mood: str = ""


app = new_app()


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    engine = create_async_engine(app.settings.sqlalchemy_url)
    provide(async_sessionmaker(engine, expire_on_commit=False))
    async with notes_for(app, provide):
        yield
    await engine.dispose()


once = app.queue("once", concurrency=4)


@once.handler("do", on=Asked)
async def do_once(event: Asked, tx: Transaction[AsyncSession], notes: Notes, job: Job) -> None:
    await tx.execute(text("INSERT INTO effects VALUES (:id, :pid)"), {"id": event.event_id, "pid": os.getpid()})
    await notes.running(event.event_id, job.attempt)
    await notes.wait_for(event.gate)
    await tx.execute(text("SELECT 1"))
