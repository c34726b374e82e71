"""Plain runs share statements and calls, and nothing else: what one of them does is not seen by another."""

import asyncio
import json
import logging
from contextvars import ContextVar
from datetime import timedelta
from uuid import uuid4

import pytest

from homing import Event, Homing, PermanentError, RetryLater
from homing.config.logs import log_context
from homing.config.settings import Settings
from homing.ids import JobId
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine
from homing.trace import current_trace
from tests.system import running
from tests.waiting import until

JOBS = 60
FULL_DISK = """
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE 'could not extend file: no space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON homing.deliveries FOR EACH ROW EXECUTE FUNCTION fill();
"""
LEFT_BEHIND: ContextVar[int | None] = ContextVar("left_behind", default=None)


class Pinged(Event, topic="plain.pinged", unrouted=True):
    number: int


def job(number: int, job_id: str = "") -> NewJob:
    data = json.dumps({"eventId": str(uuid4()), "traceId": f"trace-{number}", "payload": {"number": number}})
    return NewJob(id=JobId(job_id or f"ping-{number}"), name="ping", data=data, timestamp_ms=1)


async def test_each_run_is_its_own(settings: Settings) -> None:
    """Context variables, traces, results, failures and log fields stay with the run they belong to."""
    app = Homing("plain")
    seen: dict[int, tuple[int | None, str | None, object]] = {}
    snoozed = set[int]()

    @app.queue("mail", concurrency=JOBS).handler("ping", on=Pinged, at_least_once=True)
    async def ping(event: Pinged) -> int:
        trace = current_trace()
        seen[event.number] = (LEFT_BEHIND.get(), None if trace is None else trace.trace_id, log_context.get()["job_id"])
        LEFT_BEHIND.set(event.number)
        if event.number % 3 == 0:
            await asyncio.sleep(0)
        if event.number == 7:
            raise PermanentError("no such address")
        if event.number == 8 and event.number not in snoozed:
            snoozed.add(event.number)
            raise RetryLater(timedelta(0))
        return event.number

    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    await engine.add("mail", [job(number) for number in range(JOBS)])
    async with running(app, settings, relay=False) as system:

        async def all_ended() -> bool:
            counts = await engine.counts("mail")
            return (counts.completed, counts.failed) == (JOBS - 1, 1)

        await until(all_ended)
        (letter,) = await system.letters()
    ends = await engine.ends("mail", [JobId(f"ping-{number}") for number in range(JOBS)])
    await engine.close()
    assert seen == {number: (None, f"trace-{number}", f"ping-{number}") for number in range(JOBS)}
    assert [end.result for end in ends] == [None if number == 7 else str(number) for number in range(JOBS)]
    assert letter["job_id"] == "ping-7"


async def test_two_jobs_are_one_message(settings: Settings) -> None:
    """Both began before either was settled: they are settled in one statement, and cost their neighbours no second run."""
    app = Homing("plain")
    runs: list[int] = []
    all_began = asyncio.Event()

    @app.queue("mail", concurrency=4).handler("ping", on=Pinged, at_least_once=True, message_id="number")
    async def ping(event: Pinged) -> int:
        runs.append(event.number)
        if len(runs) == 4:
            all_began.set()
        await all_began.wait()
        return event.number

    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    await engine.add("mail", [job(number, job_id=f"copy-{copy}-{number}") for copy in range(2) for number in range(2)])
    async with running(app, settings, relay=False) as system:

        async def all_ended() -> bool:
            return (await engine.counts("mail")).completed == 4

        await until(all_ended)
        assert await system.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE outcome = 'done'") == 2
    await engine.close()
    assert sorted(runs) == [0, 0, 1, 1]


async def test_a_full_disk_repeats_no_effect(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """What was done and cannot be written down now is held until it can be: giving it up would do it again at the end of every lease."""
    app = Homing("plain")
    runs: list[int] = []

    @app.queue("mail", concurrency=2).handler("ping", on=Pinged, at_least_once=True)
    async def ping(event: Pinged) -> None:
        runs.append(event.number)

    async with running(app, settings, relay=False) as system:
        await system.sql.execute(FULL_DISK)
        await system.engine.add("mail", [job(number) for number in range(2)])
        await until(lambda: caplog.text.count("is done and waits to be settled") == 2)
        await system.sql.execute("DROP TRIGGER full_disk ON homing.deliveries")

        async def all_ended() -> bool:
            return (await system.engine.counts("mail")).completed == 2

        await until(all_ended)
    assert sorted(runs) == [0, 1]


async def test_the_line_of_a_run_stands_before_those_of_the_next(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """It is written after the gate was asked for the next job, and before that one's handler can say anything."""
    app = Homing("plain")

    @app.queue("mail", concurrency=1).handler("ping", on=Pinged, at_least_once=True)
    async def ping(event: Pinged) -> None:
        logging.getLogger("app").info("handling %d", event.number)

    caplog.set_level(logging.INFO)
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await engine.open()
    await engine.add("mail", [job(number) for number in range(10)])

    async def are_done() -> bool:
        return (await engine.counts("mail")).completed == 10

    async with running(app, settings, relay=False):
        await until(are_done)
    await engine.close()
    said = [message for message in caplog.messages if message.startswith(("handling", "mail.ping completed"))]
    assert [message.split()[0] for message in said] == ["handling", "mail.ping"] * 10
