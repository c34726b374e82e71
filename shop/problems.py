"""Errors over HTTP: problem details (RFC 9457), one place where meanings become statuses."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
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
