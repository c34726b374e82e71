"""Which errors of the database tell a customer to ask again, and which are ours."""

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

from shop import problems


def _wrapped(cause: Exception, *, invalidated: bool = False) -> DBAPIError:
    """As SQLAlchemy does it: the driver's error is the cause of its own, which is the origin of the one that is raised."""
    origin = Exception(str(cause))
    origin.__cause__ = cause
    return DBAPIError("SELECT 1", None, origin, connection_invalidated=invalidated)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectionRefusedError("nobody listens"), 503),
        (TimeoutError("no answer"), 503),
        (asyncpg.CannotConnectNowError("starting up"), 503),
        (_wrapped(asyncpg.CannotConnectNowError("starting up")), 503),
        (_wrapped(asyncpg.ConnectionDoesNotExistError("closed in the middle")), 503),
        (_wrapped(asyncpg.InternalClientError("another operation"), invalidated=True), 503),
        (_wrapped(asyncpg.UniqueViolationError("twice")), 500),
        (_wrapped(asyncpg.UndefinedColumnError("no such column")), 500),
    ],
)
async def test_a_database_that_is_away_is_no_mistake_of_ours(error: Exception, status: int) -> None:
    """Refused, starting, stopped in the middle: 503 and ask again; a statement that is wrong stays a 500."""
    api = FastAPI()
    problems.install(api)

    @api.get("/")
    async def fail() -> None:
        raise error

    transport = httpx.ASGITransport(app=api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        assert (await client.get("/")).status_code == status
