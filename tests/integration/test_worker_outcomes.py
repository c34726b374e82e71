"""What becomes of a job: each ending a handler can have, on real servers."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, PermanentError, Retry, RetryLater, Throttled, Transaction, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from tests.system import System, quick, running, with_sessions
from tests.waiting import until


class Paid(Event, topic="test.paid", aggregate="order_id", unrouted=True):
    order_id: UUID
    amount: int = 1


FAST = Retry(attempts=3, backoff=backoff.fixed(milliseconds(20)))


async def create_points(system: System) -> None:
    await system.sql.execute("CREATE TABLE points (order_id uuid, amount bigint)")


async def points(system: System) -> list[int]:
    return [row["amount"] for row in await system.sql.fetch("SELECT amount FROM points")]


ADD_POINTS = text("INSERT INTO points VALUES (:order_id, :amount)")


async def test_effect_commits_with_the_settle(settings: Settings) -> None:
    """A handler with the transaction has its effect once, and its delivery is done."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid)
    async def award(event: Paid, tx: Transaction[AsyncSession], job: Job) -> dict[str, Any]:
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": event.amount})
        return {"attempt": job.attempt}

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4(), amount=7))
        await system.settled()
        assert await points(system) == [7]
        assert await system.deliveries() == {"loyalty.award": "done"}
        assert await system.sql.fetchval("SELECT result->>'attempt' FROM homing.deliveries") == "1"


async def test_handler_without_transaction_is_settled_after_it_returned(settings: Settings) -> None:
    """A handler that runs at least once is settled, and its job is completed with the mark."""
    app = Homing("test")
    seen: list[UUID] = []

    @app.queue("mail").handler("confirm", on=Paid, at_least_once=True)
    async def confirm(event: Paid) -> None:
        seen.append(event.event_id)

    async with running(app, quick(settings)) as system:
        event = Paid(order_id=uuid4())
        await system.record(event)
        await system.settled()
        assert seen == [event.event_id]

        async def marked() -> bool:
            (trace,) = await system.engine.inspect("mail", [_job_id(event, "mail.confirm")])
            return trace.finished and trace.mark == "done"

        await until(marked, what="the job carries the mark")


@pytest.mark.parametrize("how", ["commit", "rollback", "close", "raw"])
async def test_handler_that_ends_its_transaction_is_dead_and_told_why(settings: Settings, how: str) -> None:
    """Whatever way a handler ends the transaction, nothing of a refused one stays, and a letter says why."""
    app = Homing("test")
    runs: list[int] = []

    @app.queue("loyalty").handler("award", on=Paid, retry=FAST)
    async def award(event: Paid, tx: Transaction[AsyncSession]) -> None:
        runs.append(1)
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 1})
        match how:
            case "commit":
                await tx.commit()
            case "rollback":
                await tx.rollback()
            case "close":
                await tx.close()
            case "raw":
                await tx.execute(text("ROLLBACK"))
                await tx.execute(text("BEGIN"))

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert "ended the transaction" in letter["error"]
        assert letter["kind"] == "failed"
        assert len(runs) == 1
        assert await points(system) == []
        assert await system.deliveries() == {"loyalty.award": "dead"}


async def test_session_refuses_to_go_on_after_a_rollback(settings: Settings) -> None:
    """After a rollback the session begins nothing any more: no later statement can be committed without the settle."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid, retry=FAST)
    async def award(event: Paid, tx: Transaction[AsyncSession]) -> None:
        await tx.rollback()
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 1})
        await tx.commit()

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert await points(system) == []
        assert len(await system.letters()) == 1


async def test_torn_transaction_leaves_a_letter(settings: Settings) -> None:
    """A commit as text gets past the session: the row stays done, and a torn letter shows it."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid, retry=FAST)
    async def award(event: Paid, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 1})
        await tx.execute(text("COMMIT"))
        await tx.execute(text("BEGIN"))
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 2})

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4()))
        await until(system.letters, what="a letter")
        (letter,) = await system.letters()
        assert letter["kind"] == "torn"
        assert await points(system) == [1]
        assert await system.deliveries() == {"loyalty.award": "done"}


async def test_savepoint_of_a_handler_is_free(settings: Settings) -> None:
    """begin_nested may fail and be rolled back without ending the transaction."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid, retry=FAST)
    async def award(event: Paid, tx: Transaction[AsyncSession]) -> None:
        with suppress(ZeroDivisionError):
            async with tx.begin_nested():
                await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 1})
                raise ZeroDivisionError
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 2})

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert await points(system) == [2]
        assert await system.deliveries() == {"loyalty.award": "done"}


async def test_transient_errors_are_retried_until_they_pass(settings: Settings) -> None:
    """An unknown error spends an attempt and the effect still happens once."""
    app = Homing("test")
    attempts: list[int] = []

    @app.queue("loyalty").handler("award", on=Paid, retry=FAST)
    async def award(event: Paid, tx: Transaction[AsyncSession], job: Job) -> None:
        attempts.append(job.attempt)
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 1})
        if job.attempt < 3:
            raise OSError("the network")

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert attempts == [1, 2, 3]
        assert await points(system) == [1]


class Fatal(BaseException):
    """No `Exception`."""


@pytest.mark.parametrize(
    ("error", "runs"),
    [
        (PermanentError("no such order"), 1),
        (ValueError("broken"), 3),
        (asyncio.CancelledError(), 3),
        (SystemExit(3), 3),
        (Fatal("base"), 3),
        (BaseExceptionGroup("many", [SystemExit(1), ValueError("x")]), 3),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_errors_end_as_dead_letters_and_never_end_the_worker(
    settings: Settings, error: BaseException, runs: int
) -> None:
    """Whatever a handler raises is its job's failure: buried with its evidence, and the next job runs."""
    app = Homing("test")
    count: list[int] = []
    queue = app.queue("mail")

    @queue.handler("fail", on=Paid, at_least_once=True, retry=FAST)
    async def fail(event: Paid) -> None:
        if event.amount == 1:
            count.append(1)
            raise error

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert type(error).__qualname__ in letter["error"]
        assert letter["attempts_made"] == len(count) == runs
        assert letter["data"] != "{}"
        await system.record(Paid(order_id=uuid4(), amount=2))
        await system.settled()
        assert len(await system.letters()) == 1


@pytest.mark.parametrize("error", [RetryLater(0.02), Throttled(0.02)], ids=["retry later", "throttled"])
async def test_postponing_spends_no_attempt(settings: Settings, error: Exception) -> None:
    """RetryLater and Throttled come back as often as they like with the attempt they had."""
    app = Homing("test")
    attempts: list[int] = []

    @app.queue("mail").handler("later", on=Paid, at_least_once=True, retry=FAST)
    async def later(event: Paid, job: Job) -> None:
        attempts.append(job.attempt)
        if len(attempts) < 6:
            raise error

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert attempts == [1] * 6


async def test_endless_postponing_meets_the_limit_of_starts(settings: Settings) -> None:
    """A job that never stops asking for later is dead after max_starts, and the letter says so."""
    app = Homing("test")

    @app.queue("mail").handler("later", on=Paid, at_least_once=True, retry=Retry(attempts=3, max_starts=5))
    async def later(event: Paid) -> None:
        raise RetryLater(0.01)

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert "started 5 times" in letter["error"]


@pytest.mark.parametrize("scope", ["job", "queue"])
async def test_throttled_starts_do_not_count(settings: Settings, scope: Literal["job", "queue"]) -> None:
    """A provider that refuses more often than a job may start delays the job and does not end it; the next failure is judged as its first."""
    app = Homing("test")
    runs: list[int] = []

    @app.queue("mail").handler("often", on=Paid, at_least_once=True, retry=Retry(attempts=2, max_starts=3))
    async def often(event: Paid, job: Job) -> None:
        runs.append(job.attempt)
        if len(runs) <= 6:
            raise Throttled(0.01, scope=scope)
        if len(runs) == 7:
            raise ValueError("once")

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert await system.letters() == []
    assert runs == [1] * 7 + [2]


async def test_run_past_its_timeout_is_cancelled_and_told_apart(settings: Settings) -> None:
    """A run that takes too long is cancelled and transient; a TimeoutError of the handler is only an error of the handler."""
    app = Homing("test")
    ends: list[str] = []

    @app.queue("mail").handler(
        "slow", on=Paid, at_least_once=True, retry=Retry(attempts=1), timeout=timedelta(seconds=0.1)
    )
    async def slow(event: Paid) -> None:
        if event.amount == 2:
            raise TimeoutError("of my own")
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        await system.record(Paid(order_id=uuid4(), amount=2))
        await system.settled()
        first, second = await system.letters()
        assert "AttemptTimeout" in first["error"]
        assert "of my own" in second["error"]
        assert ends == ["cancelled"]


async def test_result_that_is_no_json_is_permanent_and_runs_once(settings: Settings) -> None:
    """A result that cannot be written down is the handler's mistake: dead after one run, nothing committed."""
    app = Homing("test")
    runs: list[int] = []

    @app.queue("loyalty").handler("award", on=Paid, retry=FAST)
    async def award(event: Paid, tx: Transaction[AsyncSession]) -> object:
        runs.append(1)
        await tx.execute(ADD_POINTS, {"order_id": event.order_id, "amount": 1})
        return {"id": object()}

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert len(runs) == 1
        assert await points(system) == []
        assert "no JSON value" in (await system.letters())[0]["error"]


def _job_id(event: Event, consumer: str) -> Any:
    return f"{event.event_id}.1.{consumer}"


async def test_an_own_backoff_decides_the_wait(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """It hears the attempt and the error, may be asynchronous, may say that it is enough; one that fails leaves it to the shipped rule."""
    app = Homing("test")
    asked: list[tuple[int, str]] = []

    async def patient(attempt: int, error: BaseException) -> timedelta:
        asked.append((attempt, str(error)))
        return milliseconds(10) if attempt < 3 else milliseconds(-1)

    def mistaken(attempt: int, error: BaseException) -> float:
        raise LookupError(f"no rule for attempt {attempt}")

    @app.queue("patient").handler("fail", on=Paid, at_least_once=True, retry=Retry(backoff=patient))
    async def fail(event: Paid) -> None:
        raise OSError("away")

    @app.queue("mistaken").handler("fail", on=Paid, at_least_once=True, retry=Retry(attempts=2, backoff=mistaken))
    async def fail_too(event: Paid) -> None:
        raise OSError("away")

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))

        async def dead() -> bool:
            return await system.deliveries() == {"patient.fail": "dead", "mistaken.fail": "dead"}

        await until(dead, 10, "both are dead")
        letters = {letter["consumer"]: letter for letter in await system.letters()}
        assert asked == [(1, "away"), (2, "away"), (3, "away")]
        assert letters["patient.fail"]["attempts_made"] == 3
        assert '"reason":"exhausted"' in letters["patient.fail"]["error"].replace(" ", "")
        assert letters["mistaken.fail"]["attempts_made"] == 2
        assert "LookupError: no rule for attempt 1" in caplog.text
