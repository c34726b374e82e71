"""Checked by mypy, run by nobody: which calls of `once` are errors of type."""

from typing import assert_type

import asyncpg
import psycopg
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from homing import once


async def asynchronously(
    session: AsyncSession,
    plain: psycopg.AsyncConnection[tuple[object, ...]],
    fast: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    """The answer of an asynchronous connection is awaited, and is no truth before."""
    once(session, "hooks", "evt")  # type: ignore[unused-awaitable]  # the error is the point, here and below
    once(fast, "hooks", "evt")  # type: ignore[unused-awaitable]  # as above
    assert_type(await once(session, "hooks", "evt", bind_arguments={}), bool)
    assert_type(await once(plain, "hooks", "evt"), bool)


def plainly(session: Session, plain: psycopg.Connection[tuple[object, ...]]) -> None:
    """The synchronous kinds need no await."""
    assert_type(once(session, "hooks", "evt"), bool)
    assert_type(once(plain, "hooks", "evt"), bool)
    once(session, "hooks", 17)  # type: ignore[call-overload]  # a number is no message id
