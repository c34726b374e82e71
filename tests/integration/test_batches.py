"""Batch handlers: many events, one call and one transaction; a bad event costs the others nothing but time."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, Retry, Transaction, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.errors import RegistrationError
from homing.ids import new_token
from homing.queue.job import ClaimedJob
from homing.queue.port import ClaimRequest
from tests.system import System, execute, quick, running, with_sessions
from tests.waiting import until


class Sold(Event, topic="batches.sold", aggregate="order_id", unrouted=True):
    order_id: UUID
    amount: int = 1


FAST = Retry(attempts=2, backoff=backoff.fixed(milliseconds(20)))
ADD = text("INSERT INTO points SELECT unnest((:amounts)::bigint[])")


async def waiting(system: System, queue: str, jobs: int) -> None:
    """Wait until so many jobs wait, so that they are claimed together."""

    async def there() -> bool:
        return (await system.engine.counts(queue)).waiting == jobs

    await until(there, what=f"{jobs} jobs wait")


async def run_all(app: Homing, settings: Settings, events: list[Sold]) -> System:
    """Record, let everything wait, then start a worker and let it settle all; returns a system to look at."""
    async with running(app, quick(settings), worker=False) as system:
        await system.sql.execute("CREATE TABLE points (amount bigint)")
        await system.record(*events)
        await waiting(system, "sales", len(events))
        async with running(app, quick(settings), relay=False):
            await system.settled(30)
        return system


async def rows(settings: Settings, query: str) -> list[Any]:
    """Look into the database after the run."""
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def test_events_that_wait_are_handled_together_once(settings: Settings) -> None:
    """A crowd leaves in few calls; every event's effect, result and settle are there once."""
    app = Homing("test")
    sizes: list[int] = []

    @app.queue("sales", concurrency=20).handler("count", on=Sold, batch=50)
    async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> list[int]:
        sizes.append(len(events))
        await tx.execute(ADD, {"amounts": [event.amount for event in events]})
        return [event.amount for event in events]

    with_sessions(app, settings)
    await run_all(app, settings, [Sold(order_id=uuid4(), amount=n) for n in range(100)])
    assert sum(sizes) == 100
    assert len(sizes) < 50
    assert sorted(await rows(settings, "SELECT amount FROM points")) == [(n,) for n in range(100)]
    assert await rows(
        settings, "SELECT count(DISTINCT result), count(*) FROM homing.deliveries WHERE outcome = 'done'"
    ) == [(100, 100)]


@pytest.mark.parametrize("once", [True, False], ids=["with transaction", "at least once"])
async def test_a_bad_event_is_found_and_the_others_are_done(settings: Settings, *, once: bool) -> None:
    """When a batch fails nothing of it is kept; alone, only the bad one is dead."""
    app = Homing("test")
    queue = app.queue("sales", concurrency=10)

    if once:

        @queue.handler("count", on=Sold, batch=10, retry=FAST)
        async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> None:
            await tx.execute(ADD, {"amounts": [event.amount for event in events]})
            if any(event.amount == 7 for event in events):
                raise PermanentError("seven")

        with_sessions(app, settings)
    else:

        @queue.handler("count", on=Sold, at_least_once=True, batch=10, retry=FAST)
        async def count_outside(events: Sequence[Sold]) -> None:
            if any(event.amount == 7 for event in events):
                raise PermanentError("seven")

    await run_all(app, settings, [Sold(order_id=uuid4(), amount=n) for n in range(30)])
    if once:
        assert sorted(await rows(settings, "SELECT amount FROM points")) == [(n,) for n in range(30) if n != 7]
    assert await rows(settings, "SELECT outcome, count(*) FROM homing.deliveries GROUP BY 1 ORDER BY 1") == [
        ("dead", 1),
        ("done", 29),
    ]
    ((data,),) = await rows(settings, "SELECT data->'payload'->>'amount' FROM homing.dead_letters")
    assert data == "7"


async def test_an_event_that_was_done_before_is_not_in_the_batch(settings: Settings) -> None:
    """The handler gets only the events whose settle changed a row."""
    app = Homing("test")
    seen: list[int] = []

    @app.queue("sales", concurrency=10).handler("count", on=Sold, batch=10)
    async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> None:
        seen.extend(event.amount for event in events)

    with_sessions(app, settings)
    async with running(app, quick(settings), worker=False) as system:
        await system.record(*(Sold(order_id=uuid4(), amount=n) for n in range(10)))
        await waiting(system, "sales", 10)
        await system.sql.execute(
            "UPDATE homing.deliveries d SET outcome = 'done', settled_at = now() FROM homing.outbox_events e"
            " WHERE e.id = d.event_id AND e.payload->>'amount' IN ('3', '4')"
        )
        async with running(app, quick(settings), relay=False):
            await system.settled()

            async def finished() -> bool:
                return (await system.engine.counts("sales")).completed == 10

            await until(finished, what="all jobs are finished")
    assert sorted(seen) == [0, 1, 2, 5, 6, 7, 8, 9]


async def test_a_batch_that_ends_its_transaction_is_dead_event_by_event(settings: Settings) -> None:
    """The guard holds for batches: nothing is kept, and each event has its letter."""
    app = Homing("test")

    @app.queue("sales", concurrency=10).handler("count", on=Sold, batch=10, retry=FAST)
    async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD, {"amounts": [event.amount for event in events]})
        await tx.commit()

    with_sessions(app, settings)
    await run_all(app, settings, [Sold(order_id=uuid4()) for _ in range(6)])
    assert await rows(settings, "SELECT * FROM points") == []
    assert await rows(settings, "SELECT count(*) FROM homing.dead_letters WHERE kind = 'failed'") == [(6,)]


async def one_event(event: Sold) -> None: ...


@pytest.mark.parametrize(
    ("function", "batch", "words"),
    [
        (one_event, 10, "annotate its first parameter as Sequence"),
        (one_event, 0, "at least 1 event a call"),
    ],
    ids=["one event", "zero"],
)
def test_what_cannot_be_a_batch_handler_is_refused(function: Any, batch: int, words: str) -> None:
    """Each refusal names the function and what to write instead."""
    with pytest.raises(RegistrationError, match=words):
        Homing("test").queue("sales").handler("count", on=Sold, at_least_once=True, batch=batch)(function)


async def test_two_runs_of_one_delivery_in_one_batch_count_once(settings: Settings) -> None:
    """A job that was dispatched again while its first run waits joins the same batch: the handler gets its event once."""
    app = Homing("test")
    seen: list[int] = []

    @app.queue("sales", concurrency=10).handler("count", on=Sold, batch=10)
    async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> None:
        seen.extend(event.amount for event in events)
        await tx.execute(ADD, {"amounts": [event.amount for event in events]})

    with_sessions(app, settings)
    async with running(app, quick(settings), worker=False) as system:
        await system.sql.execute("CREATE TABLE points (amount bigint)")
        await system.record(Sold(order_id=uuid4(), amount=7), Sold(order_id=uuid4(), amount=8))
        await waiting(system, "sales", 2)
        first, second = [
            await system.engine.claim("sales", ClaimRequest(new_token(), lease_seconds=30)) for _ in range(2)
        ]
        assert isinstance(first, ClaimedJob)
        assert isinstance(second, ClaimedJob)
        again = replace(first, lease=replace(first.lease, token=new_token()))
        async with running(app, quick(settings), relay=False) as other:
            assert other.worker is not None
            await asyncio.gather(*(execute(other.worker, job) for job in (first, again, second)))
            await system.settled()
        assert sorted(seen) == [7, 8]
    assert sorted(await rows(settings, "SELECT amount FROM points")) == [(7,), (8,)]


async def test_an_expired_delivery_starts_no_run_in_a_batch(settings: Settings) -> None:
    """After its deadline a delivery is buried as expired, whatever batch its job joins; the others are handled."""
    app = Homing("test")
    seen: list[int] = []

    @app.queue("sales", concurrency=10).handler("count", on=Sold, batch=10)
    async def count(events: Sequence[Sold], tx: Transaction[AsyncSession]) -> None:
        seen.extend(event.amount for event in events)

    with_sessions(app, settings)
    async with running(app, quick(settings), worker=False) as system:
        await system.record(*(Sold(order_id=uuid4(), amount=n) for n in range(3)))
        await waiting(system, "sales", 3)
        await system.sql.execute(
            "UPDATE homing.deliveries SET opened_at = now() - interval '15 days' WHERE event_id = $1",
            await _event(system, 1),
        )
        jobs = [await system.engine.claim("sales", ClaimRequest(new_token(), lease_seconds=30)) for _ in range(3)]
        async with running(app, quick(settings), relay=False) as other:
            assert other.worker is not None
            worker = other.worker
            await asyncio.gather(*(execute(worker, _opened_long_ago(job, amount=1)) for job in jobs))
            await system.settled()
        assert sorted(seen) == [0, 2]
        assert [letter["kind"] for letter in await system.letters()] == ["expired"]


async def _event(system: System, amount: int) -> UUID:
    event_id: UUID = await system.sql.fetchval(
        "SELECT id FROM homing.outbox_events WHERE payload->>'amount' = $1", str(amount)
    )
    return event_id


def _opened_long_ago(job: object, *, amount: int) -> ClaimedJob:
    """The job as it is, or with the time that its row was given, when it is the one with that amount."""
    assert isinstance(job, ClaimedJob)
    data = json.loads(job.data)
    if data["payload"]["amount"] != amount:
        return job
    data["delivery"]["openedAt"] = (datetime.now(UTC) - timedelta(days=15)).isoformat()
    return replace(job, data=json.dumps(data))
