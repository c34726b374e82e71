"""A plain function whose connection is lost: no attempt is spent, as for a coroutine; an `OSError` of its own is an error like any other."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from homing import Event, Homing, Job, Retry, Transaction, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from tests.integration.test_threads import with_thread_sessions
from tests.system import quick, running, with_sessions


class Asked(Event, topic="lost.asked", unrouted=True):
    number: int = 0


FAST = Retry(attempts=3, backoff=backoff.fixed(milliseconds(20)))
PROCESS = text("SELECT pg_backend_pid()")
SLEEP = text("SELECT pg_sleep(30)")


async def test_a_thread_whose_connection_is_cut_spends_no_attempt(settings: Settings) -> None:
    """The function's own statement meets it first: the error is its own, and still not its fault."""
    app = Homing("lost")
    attempts: list[int] = []
    process_ids: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @app.queue("work").handler("do", on=Asked, retry=Retry(attempts=1))
    def do(event: Asked, tx: Transaction[Session], job: Job) -> None:
        attempts.append(job.attempt)
        if len(attempts) == 1:
            loop.call_soon_threadsafe(process_ids.put_nowait, tx.execute(PROCESS).scalar_one())
            tx.execute(SLEEP)

    async with running(with_thread_sessions(app, settings), quick(settings)) as system:
        await system.record(Asked())
        async with asyncio.timeout(30):
            process_id = await process_ids.get()
        await system.sql.fetchval("SELECT pg_terminate_backend($1)", process_id)
        await system.settled()
        assert attempts == [1, 1]
        assert await system.deliveries() == {"work.do": "done"}
        assert await system.letters() == []


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_an_os_error_of_the_handler_is_no_lost_connection(settings: Settings, kind: str) -> None:
    """A file that is not there, while the database answers: attempts are spent, and the third is the last."""
    app = Homing("lost")
    attempts: list[int] = []
    queue = app.queue("work", retry=FAST)
    if kind == "async":

        @queue.handler("do", on=Asked)
        async def do(event: Asked, tx: Transaction[AsyncSession], job: Job) -> None:
            attempts.append(job.attempt)
            raise FileNotFoundError("no such picture")

        with_sessions(app, settings)
    else:

        @queue.handler("do", on=Asked)
        def do_plainly(event: Asked, tx: Transaction[Session], job: Job) -> None:
            attempts.append(job.attempt)
            raise FileNotFoundError("no such picture")

        with_thread_sessions(app, settings)
    async with running(app, quick(settings)) as system:
        await system.record(Asked())
        await system.settled()
        (letter,) = await system.letters()
        assert "FileNotFoundError" in letter["error"]
        assert attempts == [1, 2, 3]
