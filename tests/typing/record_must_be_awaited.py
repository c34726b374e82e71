"""Checked by mypy, run by nobody: which calls of `record` are errors of type.

`warn_unused_ignores` is part of `strict`, so an ignore below fails the check as soon as the line it sits on is no error any more.
"""

import asyncpg
import psycopg
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from homing import Event, record


async def forgotten(
    *,
    event: Event,
    session: AsyncSession,
    scope: async_scoped_session[AsyncSession],
    conn: AsyncConnection,
    plain: psycopg.AsyncConnection[tuple[object, ...]],
    fast: "asyncpg.Connection[asyncpg.Record]",
    pooled: "PoolConnectionProxy[asyncpg.Record]",
) -> None:
    """Each line forgets the await, and each is an error."""
    record(session, event)  # type: ignore[unused-coroutine]  # the error is the point, here and below
    record(scope, event)  # type: ignore[unused-coroutine]  # as above
    record(conn, event)  # type: ignore[unused-coroutine]  # as above
    record(plain, event)  # type: ignore[unused-coroutine]  # as above
    record(fast, event)  # type: ignore[unused-coroutine]  # as above
    record(pooled, event)  # type: ignore[unused-coroutine]  # as above


async def awaited(
    *,
    event: Event,
    session: AsyncSession,
    scope: async_scoped_session[AsyncSession],
    conn: AsyncConnection,
    plain: psycopg.AsyncConnection[tuple[object, ...]],
    fast: "asyncpg.Connection[asyncpg.Record]",
    pooled: "PoolConnectionProxy[asyncpg.Record]",
) -> None:
    """The asynchronous kinds, as they should be written."""
    await record(session, event, bind_arguments={})
    await record(scope, event)
    await record(conn, event)
    await record(plain, event)
    await record(fast, event)
    await record(pooled, event)


def plainly(
    *,
    event: Event,
    session: Session,
    scope: scoped_session[Session],
    conn: Connection,
    plain: psycopg.Connection[tuple[object, ...]],
) -> None:
    """The synchronous kinds need no await."""
    record(session, event)
    record(scope, event)
    record(conn, event)
    record(plain, event)


def mistaken(session: Session, event: Event) -> None:
    """What is no connection or no event is an error."""
    record("postgresql://", event)  # type: ignore[call-overload]  # a URL is no transaction
    record(session, {"order_id": 1})  # type: ignore[call-overload]  # a dictionary is no event
    record(session, Event)  # type: ignore[call-overload]  # a class is no event
