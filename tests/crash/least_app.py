"""The part of the application of `app` that needs no SQLAlchemy: a process that loads only this is there in two thirds of the time.

The handler writes down that it runs, on a connection of its own, then waits until the gate that its event names is open.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg

from homing import Event, Homing, Job, Provider, Retry, backoff
from homing.durations import milliseconds
from homing.ledger import ledger
from homing.processes import watchdog
from homing.worker import endings
from tests.waiting import until

TABLES = """
CREATE TABLE runs (at timestamptz DEFAULT clock_timestamp(), event_id uuid, pid integer, attempt integer);
CREATE TABLE gates (name text PRIMARY KEY);
CREATE TABLE effects (event_id uuid, pid integer);
CREATE TABLE orphans (event_id uuid, pid integer);
"""
GATE_SECONDS = 60
LETTING_GO_SECONDS = 1.0
END_AFTER_SECONDS = 1.0


class AskedLeast(Event, topic="crash.least", unrouted=True):
    """Handled without one. A `mood` that is a path: block the event loop until the file is there, the first time."""

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

    async def orphan(self, event_id: UUID, pid: int) -> None:
        await self._pool.execute("INSERT INTO orphans VALUES ($1, $2)", event_id, pid)

    async def ran_before(self, event_id: UUID) -> bool:
        return bool(await self._pool.fetchval("SELECT count(*) > 1 FROM runs WHERE event_id = $1", event_id))

    async def wait_for(self, gate: str) -> None:
        if gate:

            async def is_open() -> bool:
                return bool(await self._pool.fetchval("SELECT count(*) FROM gates WHERE name = $1", gate))

            await until(is_open, GATE_SECONDS, f"gate {gate}")


async def do_at_least_once(event: AskedLeast, notes: Notes, job: Job) -> None:
    await notes.running(event.event_id, job.attempt)
    if event.mood == "deaf":
        await ignore_being_told()
    if event.mood == "blocking":
        time.sleep(GATE_SECONDS)  # noqa: ASYNC251 - the mistake that is tested
    if event.mood.startswith("/") and not await notes.ran_before(event.event_id):
        block_until(Path(event.mood))
    if event.mood == "end claims" and not await notes.ran_before(event.event_id):
        end_the_claim_loop()
    if event.mood == "threads":
        leave_threads_behind()
    if event.mood == "orphan":
        await notes.orphan(event.event_id, await leave_an_orphan())
    await notes.wait_for(event.gate)
    await notes.effect(event.event_id)


def block_until(signal: Path) -> None:
    """Keep the event loop until a file is there: the mistake that is tested, in a length that a test can choose."""
    deadline = time.monotonic() + GATE_SECONDS
    while not signal.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def end_the_claim_loop() -> None:
    """What a bug of ours might do."""
    for task in asyncio.all_tasks():
        if task.get_name() == "homing:claim":
            task.cancel()


def leave_threads_behind() -> None:
    """Start threads that nobody will end, one of which the interpreter would wait for."""
    for daemon in (True, False):
        threading.Thread(target=time.sleep, args=(GATE_SECONDS,), daemon=daemon, name="forgotten").start()
    _ = asyncio.get_running_loop().run_in_executor(None, time.sleep, GATE_SECONDS)


async def leave_an_orphan() -> int:
    """Start a program that starts another one and ends before it: the process id of the other one."""
    shell = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.2 & echo $!", stdout=asyncio.subprocess.PIPE)
    said, _ = await shell.communicate()
    return int(said)


async def ignore_being_told() -> None:
    """What no handler should do: go on after being cancelled."""
    deadline = time.monotonic() + GATE_SECONDS
    while time.monotonic() < deadline:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def new_app() -> Homing:
    """The app with its one queue."""
    made = Homing("crash", retry=Retry(attempts=3, backoff=backoff.fixed(milliseconds(100))))
    made.queue("least", concurrency=4).handler("do", on=AskedLeast, at_least_once=True)(do_at_least_once)
    return made


@asynccontextmanager
async def notes_for(made: Homing, provide: Provider) -> AsyncIterator[None]:
    """What the handlers write on; and short times, only in the processes."""
    watchdog.END_AFTER_SECONDS = END_AFTER_SECONDS  # what does not work is given up soon
    endings.LETTING_GO_SECONDS = LETTING_GO_SECONDS  # the deaf handler is given up soon
    if "CRASH_HASTY" in os.environ:  # a database that is silent is given up soon
        ledger.CALL_SECONDS = 1.0
    pool = await asyncpg.create_pool(made.settings.asyncpg_dsn, min_size=0)
    provide(Notes(pool))
    yield
    pool.terminate()


app = new_app()


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    async with notes_for(app, provide):
        yield
