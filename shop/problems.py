"""Errors over HTTP: problem details (RFC 9457), one place where meanings become statuses."""

import logging
from collections.abc import Mapping
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from shop.inventory.port import OutOfStockError, UnknownProductError
from shop.orders.errors import (
    CannotCancelError,
    CheckoutExpiredError,
    CheckoutInProgressError,
    KeyReusedError,
    OrderNotFoundError,
    PaymentRefusedError,
    PaymentUnavailableError,
)

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1

STATUSES: Mapping[type[Exception], tuple[int, str]] = {
    UnknownProductError: (422, "unknown product"),
    OutOfStockError: (409, "out of stock"),
    OrderNotFoundError: (404, "order not found"),
    CannotCancelError: (409, "order is paid"),
    KeyReusedError: (422, "idempotency key reused"),
    CheckoutInProgressError: (409, "checkout in progress"),
    CheckoutExpiredError: (410, "checkout expired"),
    PaymentRefusedError: (402, "payment refused"),
    PaymentUnavailableError: (503, "payment unavailable"),
}
"""Which answer each refusal gets: status and title."""

_ASK_AGAIN = (CheckoutInProgressError, PaymentUnavailableError)

_AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
"""What PostgreSQL is met with while it is down, stopping, starting or full; a time-out is an `OSError` too."""


class ProblemError(Exception):
    """A refusal that only HTTP knows of."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title


def install(api: FastAPI) -> None:
    """Answer every error of this API as `application/problem+json`."""
    for kind in STATUSES:
        api.add_exception_handler(kind, _refused)
    for away in (DBAPIError, *_AWAY):
        api.add_exception_handler(away, _away)
    api.add_exception_handler(ProblemError, _problem)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _http)


def problem(status: int, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """One problem; `type` is a name of ours, without a page behind it."""
    body = {"type": f"urn:shop:{title.replace(' ', '-')}", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


async def _refused(_: Request, error: Exception) -> Response:
    status, title = STATUSES[type(error)]
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if isinstance(error, _ASK_AGAIN) else None
    return problem(status, title, str(error), headers=headers)


async def _away(_: Request, error: Exception) -> Response:
    """PostgreSQL cannot be reached, or was lost in the middle: what was decided is unknown here, and the same request finds out."""
    if isinstance(error, DBAPIError) and not (error.connection_invalidated or isinstance(_driver_error(error), _AWAY)):
        raise error
    logger.warning("PostgreSQL is away: %s", error)
    detail = "the database cannot be reached: ask again with the same idempotency key"
    return problem(503, "database unavailable", detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


def _driver_error(error: DBAPIError) -> BaseException | None:
    """What asyncpg said: SQLAlchemy wraps it twice."""
    return None if error.orig is None else error.orig.__cause__


async def _problem(_: Request, error: Exception) -> Response:
    if not isinstance(error, ProblemError):
        raise error
    return problem(error.status, error.title, str(error))


async def _invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [
        {"field": ".".join(str(part) for part in found["loc"][1:]) or "body", "message": found["msg"]}
        for found in error.errors()
    ]
    return problem(422, "invalid request", "; ".join(f"{e['field']}: {e['message']}" for e in errors), errors=errors)


async def _http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return problem(error.status_code, str(error.detail).lower(), str(error.detail), headers=error.headers)
