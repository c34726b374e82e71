"""Batch handlers that are plain functions, and batches that do not listen: the promises of batches hold in threads too."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from homing import Event, Homing, Job, PermanentError, Retry, Transaction, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.worker import batch_calling
from tests.integration.test_threads import with_thread_sessions
from tests.system import quick, running
from tests.waiting import until

FAST = Retry(attempts=2, backoff=backoff.fixed(milliseconds(20)))
ADD = text("INSERT INTO points VALUES (:amount)")


class Counted(Event, topic="batches.counted", unrouted=True):
    amount: int


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the database in the end: the points, how many deliveries have which outcome, and how many results differ."""

    points: list[int]
    outcomes: dict[str, int]
    results: int


async def run_all(app: Homing, settings: Settings, number: int) -> Found:
    """Record so many events, let everything wait, then let a worker settle all of it."""
    async with running(app, quick(settings), worker=False) as system:
        await system.sql.execute("CREATE TABLE points (amount bigint)")
        await system.record(*(Counted(amount=amount) for amount in range(number)))

        async def waiting() -> bool:
            return (await system.engine.counts("sales")).waiting == number

        await until(waiting, what=f"{number} jobs wait")
        async with running(app, quick(settings), relay=False):
            await system.settled(30)
        points = [row["amount"] for row in await system.sql.fetch("SELECT amount FROM points ORDER BY amount")]
        outcomes = await system.sql.fetch("SELECT outcome, count(*) FROM homing.deliveries GROUP BY 1")
        results = await system.sql.fetchval("SELECT count(DISTINCT result) FROM homing.deliveries")
        return Found(points, {row["outcome"]: row["count"] for row in outcomes}, results)


async def test_plain_batches_commit_with_their_settles(settings: Settings) -> None:
    """A crowd leaves in few calls, each in a thread and a transaction of its own: effects, results and settles are there once."""
    app = Homing("test")
    sizes: list[int] = []
    threads: set[threading.Thread] = set()

    @app.queue("sales", concurrency=20).handler("count", on=Counted, batch=50)
    def count(events: Sequence[Counted], tx: Transaction[Session]) -> list[int]:
        sizes.append(len(events))
        threads.add(threading.current_thread())
        tx.execute(ADD, [{"amount": event.amount} for event in events])
        return [event.amount for event in events]

    found = await run_all(with_thread_sessions(app, settings), settings, 60)
    assert found == Found(list(range(60)), {"done": 60}, 60)
    assert sum(sizes) == 60
    assert len(sizes) < 30
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("once", [True, False], ids=["with transaction", "at least once"])
async def test_a_bad_event_of_a_plain_batch_is_found(settings: Settings, *, once: bool) -> None:
    """When a batch fails nothing of it is kept; alone, only the bad one is dead."""
    app = Homing("test")
    queue = app.queue("sales", concurrency=10)

    if once:

        @queue.handler("count", on=Counted, batch=10, retry=FAST)
        def count(events: Sequence[Counted], tx: Transaction[Session]) -> None:
            tx.execute(ADD, [{"amount": event.amount} for event in events])
            if any(event.amount == 7 for event in events):
                raise PermanentError("seven")

    else:

        @queue.handler("count", on=Counted, at_least_once=True, batch=10, retry=FAST)
        def count_outside(events: Sequence[Counted]) -> None:
            if any(event.amount == 7 for event in events):
                raise PermanentError("seven")

    found = await run_all(with_thread_sessions(app, settings), settings, 20)
    assert found.outcomes == {"done": 19, "dead": 1}
    assert found.points == ([amount for amount in range(20) if amount != 7] if once else [])


async def test_a_plain_batch_past_its_time_is_told_and_never_committed(settings: Settings) -> None:
    """The `Job` of a batch says when it should end; what it wrote is gone, and its events are done one by one."""
    app = Homing("test")
    told: list[bool] = []

    @app.queue("sales", concurrency=10).handler("count", on=Counted, batch=10, timeout=milliseconds(300))
    def count(events: Sequence[Counted], tx: Transaction[Session], job: Job) -> None:
        tx.execute(ADD, [{"amount": event.amount} for event in events])
        if len(events) > 1:
            told.append(wait_until_told(job))

    found = await run_all(with_thread_sessions(app, settings), settings, 10)
    assert found.points == list(range(10))
    assert found.outcomes == {"done": 10}
    assert all(told)
    assert told


def wait_until_told(job: Job) -> bool:
    """What a patient loop in a thread does; whether it heard."""
    pause = threading.Event()
    for _ in range(500):
        if job.told_to_end:
            return True
        pause.wait(0.01)
    return False


async def test_a_batch_that_does_not_listen_is_one_stuck_handler(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported with its stack and left behind; each of its runs spends an attempt, and none runs beside it."""
    monkeypatch.setattr(batch_calling, "LETTING_GO_SECONDS", 0.2)
    app = Homing("test")
    calls: list[int] = []
    may_end = asyncio.Event()

    @app.queue("sales", concurrency=4).handler(
        "count", on=Counted, at_least_once=True, batch=4, timeout=milliseconds(200), retry=Retry(attempts=1)
    )
    async def count(events: Sequence[Counted]) -> None:
        calls.append(len(events))
        while len(events) > 1 and not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    async with running(app, quick(settings), worker=False) as system:
        await system.record(*(Counted(amount=amount) for amount in range(4)))

        async def waiting() -> bool:
            return (await system.engine.counts("sales")).waiting == 4

        await until(waiting, what="four jobs wait")
        async with running(app, quick(settings), relay=False) as worked:
            await worked.settled()
            assert worked.worker is not None
            together = [size for size in calls if size > 1]
            assert worked.worker.stuck == len(together) == 1
            assert calls.count(1) == 4 - sum(together)  # those that left before the others had been claimed
            letters = await worked.letters()
            assert len(letters) == sum(together)
            assert {letter["attempts_made"] for letter in letters} == {1}
            may_end.set()
            await until(lambda: worked.worker is not None and worked.worker.stuck == 0, what="it has ended")
    assert "was told to end and has not for" in caplog.text
    assert "await may_end.wait()" in caplog.text
