"""What the application runs when its session is flushed belongs to its handler, however badly it fails and though the handler has returned."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import BigInteger, event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from homing import Event, Homing, Retry, Transaction
from homing.config.settings import Settings
from tests.integration.test_threads import with_thread_sessions
from tests.system import quick, running, with_sessions


class Asked(Event, topic="flush.asked", unrouted=True):
    number: int


class Base(DeclarativeBase):
    pass


class Point(Base):
    __tablename__ = "points"
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)


MISTAKES: dict[int, BaseException] = {
    1: SystemExit(1),
    2: KeyboardInterrupt(),
    3: asyncio.CancelledError(),
    4: ValueError("of a hook"),
    5: FileNotFoundError("of a hook: no lost connection"),
}


@event.listens_for(Point, "before_insert")
def fail(_mapper: Any, _connection: Any, point: Point) -> None:
    if point.number in MISTAKES:
        raise MISTAKES[point.number]


@pytest.mark.parametrize("kind", ["async", "thread", "batch", "batch in a thread"])
async def test_a_hook_of_the_flush_that_fails_badly_is_the_handlers_failure(settings: Settings, kind: str) -> None:
    """The handler has returned, and its hook raises what would end a process: its job is dead, nothing of it stays, and the next one is done."""
    app = Homing("flush")
    queue = app.queue("work", concurrency=10, retry=Retry(attempts=1))
    if kind == "async":

        @queue.handler("add", on=Asked)
        async def add(event: Asked, tx: Transaction[AsyncSession]) -> None:
            tx.add(Point(number=event.number))

        with_sessions(app, settings)
    elif kind == "batch":

        @queue.handler("add", on=Asked, batch=10)
        async def add_all(events: Sequence[Asked], tx: Transaction[AsyncSession]) -> None:
            tx.add_all([Point(number=event.number) for event in events])

        with_sessions(app, settings)
    elif kind == "batch in a thread":

        @queue.handler("add", on=Asked, batch=10)
        def add_all_plainly(events: Sequence[Asked], tx: Transaction[Session]) -> None:
            tx.add_all([Point(number=event.number) for event in events])

        with_thread_sessions(app, settings)
    else:

        @queue.handler("add", on=Asked)
        def add_plainly(event: Asked, tx: Transaction[Session]) -> None:
            tx.add(Point(number=event.number))

        with_thread_sessions(app, settings)
    async with running(app, quick(settings)) as system:
        await system.sql.execute("CREATE TABLE points (number bigint PRIMARY KEY)")
        await system.record(*(Asked(number=number) for number in MISTAKES))
        await system.settled(20)
        letters = await system.letters()
        assert len(letters) == len(MISTAKES)
        classes = {json.loads(letter["error"])["class"] for letter in letters}
        assert classes == {type(mistake).__name__ for mistake in MISTAKES.values()}
        await system.record(Asked(number=17))
        await system.settled()
        assert [row["number"] for row in await system.sql.fetch("SELECT number FROM points")] == [17]
