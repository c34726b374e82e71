"""Handlers of the kinds that come under suspicion less often: plain functions with and without a transaction, and batches."""

import os
import signal
from collections.abc import AsyncIterator, Sequence

from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from homing import Event, Homing, Provider, Retry, Transaction

TABLE = "CREATE TABLE effects (consumer text, pid integer)"
WRITE = text("INSERT INTO effects VALUES (:consumer, :pid)")


class Asked(Event, topic="kinds.thread", unrouted=True):
    """Handled by a plain function in a transaction. `mood`: what else happens."""

    mood: str = ""


class AskedLeast(Event, topic="kinds.least", unrouted=True):
    """The same without a transaction."""

    mood: str = ""


class Counted(Event, topic="kinds.batch", unrouted=True):
    """Handled with others of its kind."""

    mood: str = ""


app = Homing("kinds", retry=Retry(attempts=1))
queue = app.queue("kinds", concurrency=8)


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    asynchronous = create_async_engine(app.settings.sqlalchemy_url)
    plain = create_engine(app.settings.psycopg_dsn.replace("postgresql://", "postgresql+psycopg://"))
    provide(async_sessionmaker(asynchronous, expire_on_commit=False))
    provide(sessionmaker(plain))
    yield
    await asynchronous.dispose()
    plain.dispose()


@queue.handler("thread", on=Asked)
def thread(event: Asked, tx: Transaction[Session]) -> int:
    tx.execute(WRITE, {"consumer": "kinds.thread", "pid": os.getpid()})
    act(event.mood)
    return os.getpid()


@queue.handler("least", on=AskedLeast, at_least_once=True)
def least(event: AskedLeast) -> int:
    act(event.mood)
    return os.getpid()


@queue.handler("batch", on=Counted, batch=8)
async def batch(events: Sequence[Counted], tx: Transaction[AsyncSession]) -> list[list[int]]:
    """Tell for each event how many there were, and where."""
    for event in events:
        await tx.execute(WRITE, {"consumer": "kinds.batch", "pid": os.getpid()})
        act(event.mood)
    return [[len(events), os.getpid()] for _ in events]


def act(mood: str) -> None:
    """Carry out a mood."""
    if mood == "die":
        os.kill(os.getpid(), signal.SIGKILL)
