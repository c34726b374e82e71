"""Recorded events share the fate of the caller's transaction, on every kind of connection."""

import json
from datetime import UTC, datetime, timedelta

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy import event as hooks
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from homing import record
from homing.trace import Trace, enter_trace
from tests.integration.record_kinds import KINDS, OrderPlaced, open_change, record_on, recorded_ids, with_driver
from tests.integration.record_wire import counting


class Base(DeclarativeBase):
    pass


class Unsaved(Base):
    """A row that no flush could write: its table does not exist."""

    __tablename__ = "no_such_table"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_event_is_there_once_its_transaction_commits(kind: str, database_url: str) -> None:
    """Nobody else sees a recorded event before the caller commits; afterwards everybody does."""
    placed = OrderPlaced(order_id=7)
    async with open_change(kind, database_url) as change:
        await change.execute("CREATE TABLE orders (id integer)")
        await record_on(change.tx, placed)
        assert await recorded_ids(database_url) == []
        await change.commit()
    assert await recorded_ids(database_url) == [placed.event_id]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_retried_change_records_the_same_events_once(kind: str, database_url: str) -> None:
    """A rollback takes the events along; recording the same objects in the next try keeps their ids, once each."""
    events = [OrderPlaced(order_id=1), OrderPlaced(order_id=2)]
    async with open_change(kind, database_url) as change:
        await record_on(change.tx, *events)
        await change.rollback()
        assert await recorded_ids(database_url) == []
        await record_on(change.tx, *events)
        await record_on(change.tx, events[0])
        await change.commit()
        await record_on(change.tx, *events)
        await change.commit()
    assert sorted(await recorded_ids(database_url)) == sorted(event.event_id for event in events)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_savepoint_that_is_rolled_back_takes_its_events(kind: str, database_url: str) -> None:
    """Of the events around and inside a lost savepoint, exactly those inside are gone."""
    before, inside, after = (OrderPlaced(order_id=number) for number in range(3))
    async with open_change(kind, database_url) as change:
        await record_on(change.tx, before)
        await change.record_in_lost_savepoint(inside)
        await record_on(change.tx, after)
        await change.commit()
    assert await recorded_ids(database_url) == [before.event_id, after.event_id]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 200])
async def test_a_call_is_one_statement(kind: str, count: int, database_url: str) -> None:
    """Whatever the number of events, the driver sends one statement; once it is prepared, in one round trip."""
    with counting(database_url) as wire:
        async with open_change(kind, wire.url) as change:
            await record_on(change.tx, OrderPlaced(order_id=0))  # begins the transaction and prepares the statement
            mark = wire.mark()
            await record_on(change.tx, *(OrderPlaced(order_id=number) for number in range(count)))
            assert wire.since(mark) == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_no_events_touch_nothing(kind: str, database_url: str) -> None:
    """A call without events sends nothing, not even the beginning of a transaction."""
    with counting(database_url) as wire:
        async with open_change(kind, wire.url) as change:
            await change.execute("SELECT 1")
            mark = wire.mark()
            await record_on(change.tx)
            assert wire.since(mark) == (0, 0)


async def test_pending_rows_of_a_session_are_not_flushed(database_url: str) -> None:
    """Recording leaves the session's new objects pending: their table does not exist, so a flush would have failed."""
    engine = create_async_engine(with_driver(database_url, "asyncpg"))
    placed = OrderPlaced(order_id=1)
    async with AsyncSession(engine) as session:
        row = Unsaved(id=1)
        session.add(row)
        await record(session, placed)
        assert row in session.new
        session.expunge(row)
        await session.commit()
    await engine.dispose()
    assert await recorded_ids(database_url) == [placed.event_id]


async def test_nothing_of_the_session_is_ended(database_url: str) -> None:
    """Neither a commit nor a rollback nor a flush happens inside `record`."""
    engine = create_async_engine(with_driver(database_url, "asyncpg"))
    seen: list[str] = []
    async with AsyncSession(engine) as session, session.begin():
        for name in ("after_commit", "after_rollback", "after_flush", "after_soft_rollback"):
            hooks.listen(session.sync_session, name, lambda *_, name=name: seen.append(name))
        await record(session, OrderPlaced(order_id=1))
        assert seen == []
        assert session.in_transaction()
    await engine.dispose()


async def test_scoped_sessions_record_in_the_session_of_their_scope(database_url: str) -> None:
    """`scoped_session` and `async_scoped_session` stand for the session they hold."""
    first, second = OrderPlaced(order_id=1), OrderPlaced(order_id=2)
    engine = create_engine(with_driver(database_url, "psycopg"))
    scope = scoped_session(sessionmaker(engine))
    record(scope, first)
    scope.commit()
    scope.remove()
    engine.dispose()
    async_engine = create_async_engine(with_driver(database_url, "asyncpg"))
    async_scope = async_scoped_session(async_sessionmaker(async_engine), scopefunc=lambda: None)
    await record(async_scope, second)
    await async_scope.commit()
    await async_scope.remove()
    await async_engine.dispose()
    assert await recorded_ids(database_url) == [first.event_id, second.event_id]


async def test_bind_arguments_choose_the_database_of_a_session(database_url: str) -> None:
    """A session without a default bind records where its bind arguments say."""
    placed = OrderPlaced(order_id=1)
    engine = create_engine(with_driver(database_url, "psycopg"))
    with Session(binds={Unsaved: engine}) as session:
        record(session, placed, bind_arguments={"mapper": Unsaved.__mapper__})
        session.commit()
    engine.dispose()
    assert await recorded_ids(database_url) == [placed.event_id]


async def test_a_connection_that_streams_by_default_records_too(database_url: str) -> None:
    """`stream_results` on the engine asks for a server-side cursor, which PostgreSQL refuses for a statement that writes."""
    placed = OrderPlaced(order_id=1)
    engine = create_engine(with_driver(database_url, "psycopg"), execution_options={"stream_results": True})
    with engine.begin() as conn:
        record(conn, placed)
    engine.dispose()
    assert await recorded_ids(database_url) == [placed.event_id]


async def test_the_row_holds_what_the_event_said(database_url: str) -> None:
    """Topic, aggregate, camelCase payload, trace and version are kept; the event is due at its moment and not yet routed."""
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)

    class Shipped(OrderPlaced, topic="order.shipped", aggregate="order_id", version=3):
        parcel_number: str

    conn = await asyncpg.connect(database_url)
    shipped = Shipped(order_id=7, note="Ổi 🍈", parcel_number="VN-1")
    trace = Trace(trace_id="ab" * 16, traceparent=f"00-{'ab' * 16}-{'cd' * 8}-01")
    async with conn.transaction():
        with enter_trace(trace):
            await record(conn, shipped, available_at=due)
    row = await conn.fetchrow(
        "SELECT *, payload::jsonb = $1::jsonb AS same FROM homing.outbox_events",
        '{"orderId": 7, "note": "Ổi 🍈", "parcelNumber": "VN-1"}',
    )
    await conn.close()
    assert row is not None
    assert (row["topic"], row["aggregate_id"], row["same"]) == ("order.shipped", "7", True)
    assert row["headers"] == f'{{"traceId": "{trace.trace_id}", "version": 3, "traceparent": "{trace.traceparent}"}}'
    assert (row["available_at"], row["published_at"], row["parked_error"]) == (due, None, None)


async def test_custom_codecs_and_row_factories_do_not_matter(database_url: str) -> None:
    """A JSON codec on asyncpg and a dictionary row factory on psycopg leave recording as it is."""
    first, second = OrderPlaced(order_id=1), OrderPlaced(order_id=2)
    conn = await asyncpg.connect(database_url)
    await conn.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    async with conn.transaction():
        await record(conn, first)
    await conn.close()
    rows = await psycopg.AsyncConnection.connect(database_url, row_factory=dict_row)
    async with rows:
        await record(rows, second)
    assert await recorded_ids(database_url) == [first.event_id, second.event_id]
