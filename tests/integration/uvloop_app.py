"""An application on uvloop: handlers of every kind for a worker, and a FastAPI app, with the dashboard in it, for uvicorn."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from homing import Event, Homing, Provider, Transaction, record
from homing.config import load_settings
from homing.dashboard import Access, Dashboard
from homing.durations import seconds
from tests.waiting import until

log = logging.getLogger("tests.uvloop")

ADD = text("INSERT INTO effects VALUES (:kind, :loop)")
LONG_SECONDS = 60.0
TOKEN = "t" * 20


class Bought(Event, topic="uvloop.bought", unrouted=True):
    """Handled by a handler of each kind."""

    number: int = 0


class Held(Event, topic="uvloop.held", unrouted=True):
    """Handled until a file is there; `blocks` says that the event loop stands still meanwhile."""

    gate: Path
    blocks: bool = False


class Squared(Event, topic="uvloop.squared", unrouted=True):
    """Enqueued, for the sake of its result."""

    number: int


class PsycopgSession(AsyncSession):
    """A session on psycopg, beside those on asyncpg."""


app = Homing("loops")
kinds = app.queue("kinds", concurrency=16)
TRANSACTIONS = {"asyncpg", "psycopg", "thread", "batch"}
"""The kinds of handlers that leave a row."""


def loop_name() -> str:
    """The module of the event loop that runs here, or none."""
    try:
        return type(asyncio.get_running_loop()).__module__
    except RuntimeError:
        return "none"


@kinds.handler("asyncpg", on=Bought)
async def add_by_asyncpg(event: Bought, tx: Transaction[AsyncSession]) -> str:
    await tx.execute(ADD, {"kind": "asyncpg", "loop": loop_name()})
    return loop_name()


@kinds.handler("psycopg", on=Bought)
async def add_by_psycopg(event: Bought, tx: Transaction[PsycopgSession]) -> str:
    await tx.execute(ADD, {"kind": "psycopg", "loop": loop_name()})
    return loop_name()


@kinds.handler("thread", on=Bought)
def add_in_a_thread(event: Bought, tx: Transaction[Session]) -> str:
    tx.execute(ADD, {"kind": "thread", "loop": loop_name()})
    return loop_name()


@kinds.handler("batch", on=Bought, batch=5)
async def add_together(events: Sequence[Bought], tx: Transaction[AsyncSession]) -> list[str]:
    await tx.execute(ADD, [{"kind": "batch", "loop": loop_name()} for _ in events])
    return [loop_name() for _ in events]


@kinds.handler("coroutine", on=Bought, at_least_once=True)
async def run_a_program(event: Bought) -> str:
    """A program of the handler's own, for whose end the event loop is told by SIGCHLD."""
    shell = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
    assert await shell.wait() == 7
    return loop_name()


@kinds.handler("child", on=Bought, at_least_once=True, cpu=True)
def work_in_a_child(event: Bought) -> str:
    return loop_name()


@kinds.handler("square", on=Squared, at_least_once=True)
async def square(event: Squared) -> int:
    return event.number**2


@kinds.handler("hold", on=Held, at_least_once=True)
async def hold(event: Held) -> None:
    log.warning("held on %s", loop_name())
    deadline = time.monotonic() + LONG_SECONDS
    while event.blocks and not event.gate.exists() and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251 - the mistake that is tested
    await until(event.gate.exists, LONG_SECONDS, "the gate is open")


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    """Sessions on both drivers, and plain ones."""
    settings = app.settings
    by_psycopg = settings.psycopg_dsn.replace("postgresql://", "postgresql+psycopg://")
    engines = create_async_engine(settings.sqlalchemy_url), create_async_engine(by_psycopg)
    plain = create_engine(by_psycopg)
    provide(async_sessionmaker(engines[0]))
    provide(async_sessionmaker(engines[1], class_=PsycopgSession), as_=PsycopgSession)
    provide(sessionmaker(plain))
    try:
        yield
    finally:  # a failed test is no reason to leave connections open
        for engine in engines:
            await engine.dispose()
        plain.dispose()


def api() -> FastAPI:
    """The web process: `uvicorn --factory`."""
    settings = load_settings()
    dashboard = Dashboard(settings, name=app.name, access=Access(token=TOKEN))

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        engine = create_async_engine(settings.sqlalchemy_url)
        api.state.sessions = async_sessionmaker(engine)
        async with dashboard.running():
            yield
        await app.close()
        await engine.dispose()

    made = FastAPI(lifespan=lifespan)
    made.mount("/ops", dashboard)

    @made.post("/bought/{number}")
    async def buy(number: int) -> dict[str, object]:
        async with made.state.sessions.begin() as session:
            await record(session, Bought(number=number))
        handle = await kinds.enqueue(square, Squared(number=number))
        return {"loop": loop_name(), "square": await handle.result(timeout=seconds(30))}

    return made
