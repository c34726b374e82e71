"""Transactions that stand in each other's way are nobody's fault: the job comes back, and spends nothing."""

from collections.abc import AsyncIterator

import asyncpg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from homing import Event, Homing, Job, Provider, Retry, Transaction
from homing.config.settings import Settings
from tests.system import quick, running
from tests.waiting import until

TABLES = """
CREATE TABLE effects (consumer text, attempt integer);
CREATE TABLE held (id integer PRIMARY KEY);
INSERT INTO held VALUES (1);
CREATE SEQUENCE at_commit;
CREATE SEQUENCE raw;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.consumer = 'commit' AND nextval('at_commit') < 3 THEN
    RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001';
  END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE FUNCTION deadlock() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('raw') < 3 THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END IF; END $$;
"""
ONE_ATTEMPT = Retry(attempts=1)
TAKE = text("SELECT id FROM held FOR UPDATE")
EFFECT = text("INSERT INTO effects VALUES (:consumer, :attempt)")


class Moved(Event, topic="conflicts.moved"):
    amount: int


def app_of(settings: Settings, starts: list[str]) -> Homing:
    """Handlers with a single attempt: conflicts at the commit, in a thread that waits for a lock, and from a driver used directly."""
    app = Homing("test")
    queue = app.queue("q")

    @queue.handler("commit", on=Moved, retry=ONE_ATTEMPT)
    async def commit(event: Moved, tx: Transaction[AsyncSession], job: Job) -> None:
        starts.append("commit")
        await tx.execute(EFFECT, {"consumer": "commit", "attempt": job.attempt})

    @queue.handler("thread", on=Moved, retry=ONE_ATTEMPT)
    def thread(event: Moved, tx: Transaction[Session], job: Job) -> None:
        starts.append("thread")
        tx.execute(text("SET LOCAL lock_timeout = '10ms'"))
        tx.execute(TAKE)
        tx.execute(EFFECT, {"consumer": "thread", "attempt": job.attempt})

    @queue.handler("raw", on=Moved, retry=ONE_ATTEMPT, at_least_once=True)
    async def raw(event: Moved, own: asyncpg.Connection) -> None:
        starts.append("raw")
        await own.execute("SELECT deadlock()")

    async def lifespan(provide: Provider) -> AsyncIterator[None]:
        engine = create_async_engine(settings.sqlalchemy_url)
        threads = create_engine(settings.psycopg_dsn.replace("postgresql://", "postgresql+psycopg://"))
        own = await asyncpg.connect(settings.asyncpg_dsn)
        for resource in (async_sessionmaker(engine), sessionmaker(threads), own):
            provide(resource)
        yield
        await own.close()
        threads.dispose()
        await engine.dispose()

    app.lifespan(lifespan)
    return app


async def test_conflicts_come_back_and_spend_no_attempt(settings: Settings) -> None:
    """A serialization failure at the commit, a lock that is not free and a deadlock are run again until they pass, as attempt 1."""
    starts: list[str] = []
    holder = await asyncpg.connect(settings.asyncpg_dsn)
    await holder.execute(TABLES)
    async with running(app_of(settings, starts), quick(settings)) as system:
        held = holder.transaction()
        await held.start()
        await holder.execute("SELECT id FROM held FOR UPDATE")
        await system.record(Moved(amount=1))

        async def met() -> bool:
            return starts.count("thread") >= 2

        await until(met, what="the thread met the lock twice")
        await held.rollback()
        await system.settled(30)
        assert await system.letters() == []
        assert set((await system.deliveries()).values()) == {"done"}
        effects = await system.sql.fetch("SELECT * FROM effects ORDER BY consumer")
        assert [tuple(row) for row in effects] == [("commit", 1), ("thread", 1)]
        assert starts.count("commit") == starts.count("raw") == 3
    await holder.close()
