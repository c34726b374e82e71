"""Plain functions run in threads, with the same guarantees as coroutines."""

import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from homing import Event, Homing, Job, PermanentError, Provider, Retry, Transaction, backoff, record
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.errors import RegistrationError
from homing.trace import current_trace
from tests.system import System, quick, running, with_sessions
from tests.waiting import until


class Sold(Event, topic="threads.sold", aggregate="order_id", unrouted=True):
    order_id: UUID
    amount: int = 1


class Counted(Event, topic="threads.counted", unrouted=True):
    amount: int


FAST = Retry(attempts=3, backoff=backoff.fixed(milliseconds(20)))
ADD = text("INSERT INTO points VALUES (:order_id, :amount)")


def with_thread_sessions(app: Homing, settings: Settings) -> Homing:
    """Give the app synchronous sessions on the ledger's database."""

    async def lifespan(provide: Provider) -> AsyncIterator[None]:
        engine = create_engine(settings.psycopg_dsn.replace("postgresql://", "postgresql+psycopg://"), pool_size=16)
        provide(sessionmaker(engine))
        yield
        engine.dispose()

    app.lifespan(lifespan)
    return app


async def create_points(system: System) -> None:
    await system.sql.execute("CREATE TABLE points (order_id uuid, amount bigint)")


async def points(system: System) -> list[int]:
    return [row["amount"] for row in await system.sql.fetch("SELECT amount FROM points ORDER BY amount")]


async def test_plain_function_runs_in_a_thread_of_its_own(settings: Settings) -> None:
    """A def at least once blocks nobody: it runs beside the event loop, in the context of its run."""
    app = Homing("test")
    seen: list[tuple[str, str]] = []

    @app.queue("mail").handler("send", on=Sold, at_least_once=True)
    def send(event: Sold, job: Job) -> dict[str, str]:
        trace = current_trace()
        seen.append((threading.current_thread().name, "" if trace is None else trace.trace_id))
        return {"trace": job.trace_id}

    async with running(app, quick(settings)) as system:
        await system.record(Sold(order_id=uuid4()))
        await system.settled()
        ((thread, trace),) = seen
        assert thread != threading.main_thread().name
        assert await system.sql.fetchval("SELECT result->>'trace' FROM homing.deliveries") == trace


async def test_effect_of_a_thread_commits_with_the_settle(settings: Settings) -> None:
    """A def with Transaction[Session] has its effect, its follow-up event and its settle in one commit."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Sold, retry=FAST)
    def award(event: Sold, tx: Transaction[Session], job: Job) -> None:
        tx.execute(ADD, {"order_id": event.order_id, "amount": event.amount})
        record(tx, Counted(amount=event.amount))
        if job.attempt < 3:
            raise OSError("the network")

    async with running(with_thread_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Sold(order_id=uuid4(), amount=7))
        await until(lambda: points(system), what="points")
        assert await points(system) == [7]
        assert await system.deliveries() == {"loyalty.award": "done"}
        assert (
            await system.sql.fetchval("SELECT count(*) FROM homing.outbox_events WHERE topic = 'threads.counted'") == 1
        )


@pytest.mark.parametrize("how", ["commit", "rollback", "close", "raw"])
async def test_thread_that_ends_its_transaction_is_dead_and_told_why(settings: Settings, how: str) -> None:
    """The guard holds in threads too: everything is rolled back, and the letter says why."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Sold, retry=FAST)
    def award(event: Sold, tx: Transaction[Session]) -> None:
        tx.execute(ADD, {"order_id": event.order_id, "amount": 1})
        match how:
            case "commit":
                tx.commit()
            case "rollback":
                tx.rollback()
                tx.execute(ADD, {"order_id": event.order_id, "amount": 2})
            case "close":
                tx.close()
            case "raw":
                tx.execute(text("ROLLBACK"))
                tx.execute(text("BEGIN"))

    async with running(with_thread_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Sold(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert "ended the transaction" in letter["error"]
        assert await points(system) == []


@pytest.mark.parametrize(
    "error", [PermanentError("no"), SystemExit(3), StopIteration("x")], ids=lambda e: type(e).__name__
)
async def test_errors_of_threads_are_their_own_jobs_failure(settings: Settings, error: BaseException) -> None:
    """Whatever a thread raises ends as a letter, and the worker goes on."""
    app = Homing("test")

    @app.queue("mail").handler("send", on=Sold, at_least_once=True, retry=Retry(attempts=1))
    def send(event: Sold) -> None:
        if event.amount == 1:
            raise error

    async with running(app, quick(settings)) as system:
        await system.record(Sold(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert type(error).__name__ in letter["error"]
        await system.record(Sold(order_id=uuid4(), amount=2))
        await system.settled()
        assert len(await system.letters()) == 1


async def test_thread_past_its_time_is_told_and_never_committed(settings: Settings) -> None:
    """A thread cannot be ended: it looks at told_to_end, and what it wrote after its time is rolled back."""
    app = Homing("test")
    told = threading.Event()

    @app.queue("loyalty").handler("slow", on=Sold, retry=Retry(attempts=1), timeout=timedelta(seconds=0.1))
    def slow(event: Sold, tx: Transaction[Session], job: Job) -> None:
        tx.execute(ADD, {"order_id": event.order_id, "amount": 1})
        while not job.told_to_end:
            told.wait(0.005)
        told.set()

    async with running(with_thread_sessions(app, settings), quick(settings)) as system:
        await create_points(system)
        await system.record(Sold(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert "AttemptTimeout" in letter["error"]
        assert told.is_set()
        assert await points(system) == []


async def test_concurrent_duplicate_of_a_thread_waits_and_is_skipped(settings: Settings) -> None:
    """Two jobs of one delivery at once: the row is locked by the first, and the second finds it done."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Sold, retry=FAST)
    def award(event: Sold, tx: Transaction[Session]) -> None:
        tx.execute(ADD, {"order_id": event.order_id, "amount": 1})

    async with running(with_thread_sessions(app, settings), quick(settings), worker=False) as system:
        await create_points(system)
        await system.record(*(Sold(order_id=uuid4()) for _ in range(20)))

        async def dispatched() -> bool:
            return (await system.engine.counts("loyalty")).waiting == 20

        await until(dispatched, what="jobs wait")
        async with running(app, quick(settings), relay=False), running(app, quick(settings), relay=False):
            await system.settled()
        assert await points(system) == [1] * 20


@pytest.mark.parametrize("kind", ["async with Session", "def with AsyncSession"])
async def test_session_of_the_wrong_kind_is_refused_at_start(settings: Settings, kind: str) -> None:
    """A blocking session in a coroutine, or the reverse, is named with the factory that would fit."""
    app = Homing("test")
    queue = app.queue("loyalty")
    if kind == "async with Session":

        @queue.handler("award", on=Sold)
        async def award(event: Sold, tx: Transaction[Session]) -> None: ...

        with_thread_sessions(app, settings)
    else:

        @queue.handler("award", on=Sold)
        def award_plainly(event: Sold, tx: Transaction[AsyncSession]) -> None: ...

        with_sessions(app, settings)
    with pytest.raises(RegistrationError, match="provide a session factory of that kind"):
        async with running(app, quick(settings)):
            pass
