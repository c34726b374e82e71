"""The ledger's connections: asyncpg's pool, and those at hand, which were used a moment ago and will be again."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

Lent: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
"""A connection as the pool lends it."""


class Connections:
    """Lends each connection to one statement or one transaction at a time.

    Giving a connection back to the pool and taking it out again is two tasks and six turns of the event loop: as much as the statement itself,
    for a worker that has the next one ready. So a few of them stay at hand, unless somebody waits for one.
    """

    def __init__(self, pool: asyncpg.Pool, *, take_seconds: float, at_hand: int) -> None:
        self._pool = pool
        self._take_seconds = take_seconds
        self._most_at_hand = at_hand
        self._at_hand: list[Lent] = []
        self._waiting = 0

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """Run one statement in a transaction of its own."""
        connection = await self.take()
        try:
            rows = await connection.fetch(sql, *arguments)
        except BaseException:
            await self.give_up(connection)
            raise
        await self.give_back(connection)
        return rows

    async def warm_up(self, connections: int, statements: Sequence[tuple[str, tuple[object, ...]]]) -> None:
        """Have so many connections at hand, each of which has run these statements once: a new one is slow at first."""
        taken = await asyncio.gather(*(self.take() for _ in range(connections)), return_exceptions=True)
        made = [each for each in taken if not isinstance(each, BaseException)]
        ran = await asyncio.gather(*(self._run_all(each, statements) for each in made), return_exceptions=True)
        for failure in (*taken, *ran):
            if isinstance(failure, BaseException):
                raise failure

    async def take(self) -> Lent:
        """A connection for the caller alone, who hands it back by one of the two below; `TimeoutError` when none is free in time."""
        while self._at_hand:
            connection = self._at_hand.pop()
            if not connection.is_closed():
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._take_seconds)
        finally:
            self._waiting -= 1

    async def give_back(self, connection: Lent) -> None:
        """Hand back a connection that did what it was asked."""
        if self._waiting or len(self._at_hand) >= self._most_at_hand:
            await self._pool.release(connection)
        else:
            self._at_hand.append(connection)

    async def give_up(self, connection: Lent) -> None:
        """Hand back a connection on which something failed: the pool looks what is left of it."""
        await self._pool.release(connection)

    async def _run_all(self, connection: Lent, statements: Sequence[tuple[str, tuple[object, ...]]]) -> None:
        try:
            for sql, arguments in statements:
                await connection.fetch(sql, *arguments)
        except BaseException:
            await self.give_up(connection)
            raise
        await self.give_back(connection)

    async def close(self) -> None:
        """Close them, once those that are lent are back."""
        self._most_at_hand = 0
        while self._at_hand:
            await self._pool.release(self._at_hand.pop())
        await self._pool.close()

    def terminate(self) -> None:
        """Close them at once, whatever they do."""
        self._pool.terminate()
