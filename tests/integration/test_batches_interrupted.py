"""Batches that cannot come to their end: one lease of many is taken, the worker stops, the database goes away; each event is its own again."""

import asyncio
from collections.abc import Sequence

import pytest
from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, Retry, Transaction
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.ids import DeliveryKey
from homing.queue.redis.keys import QueueKeys
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

QUEUE = "sales"
EVENTS = 4
ADD = text("INSERT INTO points SELECT unnest((:numbers)::bigint[])")


class Sold(Event, topic="interrupted.sold", unrouted=True):
    number: int


class Calls:
    """What the handler was called with, and when a call for many events may return."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.attempts: list[int] = []
        self.cancelled = 0
        self.together: asyncio.Queue[list[int]] = asyncio.Queue()
        self.may_leave = asyncio.Event()
        self.process_ids: asyncio.Queue[int] = asyncio.Queue()

    async def pass_through(self, events: Sequence[Sold], job: Job) -> None:
        self.sizes.append(len(events))
        self.attempts.append(job.attempt)
        if len(events) == 1:
            return
        self.together.put_nowait([event.number for event in events])
        try:
            await self.may_leave.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def app_with(calls: Calls, settings: Settings, *, once: bool) -> Homing:
    app = Homing("interrupted")
    queue = app.queue(QUEUE, concurrency=EVENTS, retry=Retry(attempts=2))

    if once:

        @queue.handler("count", on=Sold, batch=EVENTS)
        async def count(events: Sequence[Sold], tx: Transaction[AsyncSession], job: Job) -> None:
            await tx.execute(ADD, {"numbers": [event.number for event in events]})
            if len(events) > 1:
                calls.process_ids.put_nowait((await tx.execute(text("SELECT pg_backend_pid()"))).scalar_one())
            await calls.pass_through(events, job)
            await tx.execute(text("SELECT 1"))

    else:

        @queue.handler("count", on=Sold, batch=EVENTS, at_least_once=True)
        async def count_outside(events: Sequence[Sold], job: Job) -> None:
            await calls.pass_through(events, job)

    return with_sessions(app, settings)


async def prepared(system: System) -> list[Sold]:
    """Events whose jobs wait together, so that they are claimed in few calls."""
    await system.sql.execute("CREATE TABLE points (number bigint)")
    events = [Sold(number=number) for number in range(EVENTS)]
    await system.record(*events)

    async def waiting() -> bool:
        return (await system.engine.counts(QUEUE)).waiting == EVENTS

    await until(waiting, what="all of them wait")
    return events


async def points(system: System) -> list[int]:
    return [row["number"] for row in await system.sql.fetch("SELECT number FROM points ORDER BY number")]


def lock_of(settings: Settings, event: Event) -> str:
    return QueueKeys(settings.prefix or "", QUEUE).lock(DeliveryKey(event.event_id, f"{QUEUE}.count", 1).job_id)


@pytest.mark.parametrize("once", [True, False], ids=["with transaction", "at least once"])
async def test_one_taken_lease_costs_the_others_of_its_batch_only_time(settings: Settings, *, once: bool) -> None:
    """The call is told to end and keeps nothing; the others are done one by one, and the job of the lost lease is left to who has it."""
    calls = Calls()
    app = app_with(calls, settings, once=once)
    brief = quick(settings, beat=milliseconds(100), rescue=milliseconds(200))
    async with running(app, brief, worker=False) as system:
        events = await prepared(system)
        async with running(app, brief, relay=False) as working:
            worker = working.worker
            assert worker is not None
            async with asyncio.timeout(30):
                members = await calls.together.get()
            lost = events[members[-1]]
            with Redis.from_url(settings.redis_dsn) as client:
                client.set(lock_of(settings, lost), "another", px=60_000)
                await until(lambda: calls.cancelled == 1, what="the call is told to end")
                calls.may_leave.set()  # those that had not joined it yet may be in a call of their own
                await until(lambda: worker.running == 0, 15, "no run is left")
                assert worker.leases_lost == 1
                assert await outcomes(system) == {"done": EVENTS - 1, None: 1}
                assert client.get(lock_of(settings, lost)) == b"another"
                client.delete(lock_of(settings, lost))  # the other one dies
            await working.settled(20)
            await until(lambda: worker.running == 0, what="it has ended")
        assert await outcomes(system) == {"done": EVENTS}
        assert await points(system) == (list(range(EVENTS)) if once else [])
        assert set(calls.attempts) == {1}
        assert await system.letters() == []


async def outcomes(system: System) -> dict[str | None, int]:
    rows = await system.sql.fetch("SELECT outcome, count(*) FROM homing.deliveries GROUP BY 1")
    return {row["outcome"]: row["count"] for row in rows}


@pytest.mark.parametrize("once", [True, False], ids=["with transaction", "at least once"])
async def test_a_batch_at_the_end_of_the_grace_is_given_back_whole(settings: Settings, *, once: bool) -> None:
    """Each of its jobs waits again with its attempt and its start, nothing of it is kept, and the next worker does all of them."""
    calls = Calls()
    app = app_with(calls, settings, once=once)
    patient = quick(settings, lease=seconds(60), beat=seconds(10), rescue=seconds(60))
    async with running(app, patient, worker=False) as system:
        await prepared(system)
        async with running(app, patient, relay=False) as working:
            async with asyncio.timeout(30):
                await calls.together.get()
            assert working.worker is not None
            assert await working.worker.stop(0) is True
        counts = await system.engine.counts(QUEUE)
        assert (counts.waiting, counts.active) == (EVENTS - counts.completed, 0)
        assert len(await points(system)) == (counts.completed if once else 0)
        assert calls.cancelled == 1
        calls.may_leave.set()
        async with running(app, patient, relay=False) as working:
            await working.settled()
        assert await outcomes(system) == {"done": EVENTS}
        assert await points(system) == (list(range(EVENTS)) if once else [])
        assert set(calls.attempts) == {1}


async def test_a_batch_whose_connection_is_lost_spends_no_attempt(settings: Settings) -> None:
    """The database ends the connection in the middle of the call: nothing is known, nothing counts, and all of them are done once."""
    calls = Calls()
    app = app_with(calls, settings, once=True)
    async with running(app, quick(settings), worker=False) as system:
        await prepared(system)
        async with running(app, quick(settings), relay=False) as working:
            async with asyncio.timeout(30):
                process_id = await calls.process_ids.get()
            await system.sql.fetchval("SELECT pg_terminate_backend($1)", process_id)
            calls.may_leave.set()
            await working.settled(20)
        assert await outcomes(system) == {"done": EVENTS}
        assert await points(system) == list(range(EVENTS))
        assert set(calls.attempts) == {1}
        assert await system.letters() == []


async def test_a_batch_with_a_result_too_few_is_done_one_by_one(settings: Settings) -> None:
    """Whose result is whose cannot be known: nothing of the call is kept, and each event alone has its own."""
    app = Homing("interrupted")
    sizes: list[int] = []

    @app.queue(QUEUE, concurrency=EVENTS).handler("count", on=Sold, batch=EVENTS)
    async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> list[int]:
        sizes.append(len(events))
        await tx.execute(ADD, {"numbers": [event.number for event in events]})
        return [events[0].number]

    with_sessions(app, settings)
    async with running(app, quick(settings), worker=False) as system:
        await prepared(system)
        async with running(app, quick(settings), relay=False) as working:
            await working.settled()
        assert max(sizes) > 1
        assert await points(system) == list(range(EVENTS))
        results = await system.sql.fetch("SELECT result::text AS result FROM homing.deliveries")
        assert sorted(row["result"] for row in results) == [str(number) for number in range(EVENTS)]
