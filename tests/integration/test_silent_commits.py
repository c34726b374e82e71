"""A connection that falls silent in the middle of a handler's transaction: the run is given up in bounded time, and its effect counts once."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from homing import Event, Homing, Job, Provider, Retry, RetryLater, Transaction
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.worker import sqlalchemy_transactions
from tests.system import quick, running
from tests.tcp_proxy import TcpProxy
from tests.waiting import until


class Asked(Event, topic="silent.asked", unrouted=True):
    number: int = 0


ADD = text("INSERT INTO effects VALUES (:number)")


def app_through(proxy: TcpProxy, settings: Settings, runs: list[int], *, driver: str, fails: bool) -> Homing:
    """The handler's sessions, and nothing else, go through the proxy, which falls silent when its first run ends."""
    app = Homing("silent")

    @app.lifespan
    async def resources(provide: Provider) -> AsyncIterator[None]:
        engine = create_async_engine(
            proxy.url(settings.psycopg_dsn).replace("postgresql://", f"postgresql+{driver}://")
        )
        provide(async_sessionmaker(engine, expire_on_commit=False))
        yield
        await engine.dispose()

    @app.queue("work", retry=Retry(attempts=1)).handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession], job: Job) -> None:
        await tx.execute(ADD, {"number": event.number})
        runs.append(job.attempt)
        if len(runs) == 1:
            proxy.silence()
            if fails:
                raise RetryLater(0.01)

    return app


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
@pytest.mark.parametrize("fails", [False, True], ids=["a commit", "a rollback"])
async def test_an_end_without_an_answer_is_given_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, driver: str, *, fails: bool
) -> None:
    """Nothing is known of it, so that nothing is concluded: the slot is free, no attempt is spent, and the row decides."""
    monkeypatch.setattr(sqlalchemy_transactions, "CALL_SECONDS", 0.5)
    runs: list[int] = []
    async with TcpProxy(int(settings.asyncpg_dsn.rpartition(":")[2].partition("/")[0])) as proxy:
        app = app_through(proxy, settings, runs, driver=driver, fails=fails)
        async with running(app, quick(settings)) as system:
            worker = system.worker
            assert worker is not None
            await system.sql.execute("CREATE TABLE effects (number integer)")
            await system.record(Asked(number=7))
            await until(lambda: runs, what="it runs")
            await until(lambda: worker.running == 0, 15, "its slot is free")
            await proxy.heal()
            await system.settled(20)
            assert [row["number"] for row in await system.sql.fetch("SELECT number FROM effects")] == [7]
            assert set(runs) == {1}
            assert await system.letters() == []


async def test_a_commit_of_a_thread_without_an_answer_is_given_up_with_its_time(settings: Settings) -> None:
    """A plain function has returned, and its attempt's time ends while the commit waits: that is no failure of the function."""
    app = Homing("silent")
    runs: list[int] = []
    port = int(settings.asyncpg_dsn.rpartition(":")[2].partition("/")[0])
    async with TcpProxy(port) as proxy:

        @app.lifespan
        async def resources(provide: Provider) -> AsyncIterator[None]:
            engine = create_engine(proxy.url(settings.psycopg_dsn).replace("postgresql://", "postgresql+psycopg://"))
            provide(sessionmaker(engine))
            yield
            engine.dispose()

        @app.queue("work", retry=Retry(attempts=1)).handler("do", on=Asked, timeout=milliseconds(400))
        def do(event: Asked, tx: Transaction[Session], job: Job) -> None:
            tx.execute(ADD, {"number": event.number})
            runs.append(job.attempt)
            if len(runs) == 1:
                proxy.silence()

        async with running(app, quick(settings)) as system:
            worker = system.worker
            assert worker is not None
            await system.sql.execute("CREATE TABLE effects (number integer)")
            await system.record(Asked(number=7))
            await until(lambda: runs, what="it runs")
            await until(lambda: worker.running == 0, 15, "its slot is free")
            assert worker.stuck == 0
            await proxy.heal()
            await system.settled(20)
            assert [row["number"] for row in await system.sql.fetch("SELECT number FROM effects")] == [7]
            assert set(runs) == {1}
            assert await system.letters() == []
