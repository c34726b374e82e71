"""Connections that stay at hand: who gets one, who waits, and what is never used again."""

import asyncio
from typing import Any, cast

import pytest

from homing.ledger.connections import Connections


class Connection:
    """Does what it is asked, or fails."""

    def __init__(self) -> None:
        self.closed = False
        self.error: Exception | None = None
        self.ran: list[tuple[Connection, str]] = []

    def is_closed(self) -> bool:
        return self.closed

    async def fetch(self, sql: str, *arguments: object) -> list[Any]:
        await asyncio.sleep(0)
        self.ran.append((self, sql))
        if self.error is not None:
            raise self.error
        return [sql, *arguments]


class Pool:
    """Lends so many connections, and replaces those that come back closed."""

    def __init__(self, size: int) -> None:
        self.free = [Connection() for _ in range(size)]
        self.lent: set[Connection] = set()
        self.acquired = 0
        self._back = asyncio.Event()
        self.closed = False

    async def acquire(self, *, timeout: float) -> Connection:  # noqa: ASYNC109 - as asyncpg has it
        async with asyncio.timeout(timeout):
            while not self.free:
                self._back.clear()
                await self._back.wait()
        self.acquired += 1
        connection = self.free.pop()
        self.lent.add(connection)
        return connection

    async def release(self, connection: Connection) -> None:
        self.lent.remove(connection)
        self.free.append(Connection() if connection.closed else connection)
        self._back.set()

    async def close(self) -> None:
        assert not self.lent
        self.closed = True


def made(size: int, at_hand: int = 2) -> tuple[Pool, Connections]:
    """A pool, and what lends its connections."""
    pool = Pool(size)
    return pool, Connections(cast("Any", pool), take_seconds=5, at_hand=at_hand)


async def test_statements_in_a_row_take_one_connection_once() -> None:
    """That is what they stay at hand for."""
    pool, connections = made(4)
    rows: list[Any] = await connections.fetch("SELECT", 1)
    assert rows == ["SELECT", 1]
    for _ in range(10):
        await connections.fetch("SELECT")
    assert pool.acquired == 1


async def test_whoever_waits_gets_one_although_others_go_on() -> None:
    """A pool of one, and many who want it: each of them is served, and none is kept at hand meanwhile."""
    pool, connections = made(1)
    answers: list[Any] = await asyncio.gather(*(connections.fetch("SELECT", number) for number in range(20)))
    assert answers == [["SELECT", number] for number in range(20)]
    assert pool.acquired <= 20


async def test_no_more_stay_at_hand_than_asked_for() -> None:
    """Others go back to the pool, which closes what nobody uses."""
    pool, connections = made(4, at_hand=1)
    await asyncio.gather(*(connections.fetch("SELECT") for _ in range(4)))
    assert len(pool.lent) == 1


async def test_a_connection_that_broke_while_it_lay_at_hand_is_not_used() -> None:
    """The server may have ended in between."""
    pool, connections = made(1)
    await connections.fetch("SELECT")
    (connection,) = pool.lent
    connection.closed = True
    connection.error = ConnectionError("closed")
    rows: list[Any] = await connections.fetch("SELECT")
    assert rows == ["SELECT"]
    assert connection not in pool.lent


async def test_after_an_error_the_pool_looks_at_the_connection() -> None:
    """It may be in any state."""
    pool, connections = made(1)
    pool.free[0].error = ValueError("refused")
    with pytest.raises(ValueError, match="refused"):
        await connections.fetch("SELECT")
    assert not pool.lent


async def test_connections_are_warm_before_they_are_needed() -> None:
    """So many at once, each having run every statement; one that fails is not kept, and its error is told."""
    pool, connections = made(4, at_hand=3)
    ran: list[tuple[Connection, str]] = []
    for connection in pool.free:
        connection.ran = ran
    await connections.warm_up(3, [("READ", ()), ("SETTLE", (1,))])
    assert pool.acquired == len(pool.lent) == 3
    assert sorted(sql for _, sql in ran) == ["READ"] * 3 + ["SETTLE"] * 3
    assert {connection for connection, _ in ran} == pool.lent
    bad, ours = made(2)
    bad.free[0].error = ValueError("refused")
    with pytest.raises(ValueError, match="refused"):
        await ours.warm_up(2, [("READ", ())])
    assert len(bad.lent) == 1


async def test_closing_gives_all_of_them_back() -> None:
    """Those at hand at once, those that are lent when they come back."""
    pool, connections = made(2)
    await connections.fetch("SELECT")
    connection = await connections.take()
    await connections.fetch("SELECT")
    assert len(pool.lent) == 2
    await connections.give_back(connection)
    await connections.close()
    assert pool.closed
