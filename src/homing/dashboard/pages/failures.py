"""What is shown instead of a page: what happened, with its value, and what to do. Never a traceback."""

import logging
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from homing.dashboard.visit import Visit, is_ours
from homing.errors import ConfigurationError, NotPermitted, Refused, ServerUnavailable, UnknownId, UnsuitableServer

log = logging.getLogger("homing.dashboard")

TITLES = {
    400: "This address cannot be read",
    401: "Who are you?",
    403: "You may not do that",
    404: "There is no such thing",
    405: "This is no way to ask",
    409: "Nothing was changed",
    413: "That is too much",
    429: "Not so fast",
    500: "Something broke here",
    503: "A server is away",
}


async def show_failure(request: Request, error: Exception) -> Response:
    """The page of an error."""
    status, text = read_failure(error)
    if status == 500:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    visit = Visit(request)
    title = TITLES.get(status, HTTPStatus(status).phrase)
    response = visit.page("failure.html", status, title=title, text=text, status=status, back=back_of(visit))
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


def back_of(visit: Visit) -> str:
    """Where to go on: to the same page, or where a form that was sent had been opened."""
    if visit.request.method == "GET":
        return visit.here
    opened: str = getattr(visit.request.state, "back", "")
    if opened and is_ours(opened):
        return opened
    referrer = urlsplit(visit.request.headers.get("referer", ""))
    is_page = referrer.netloc == visit.request.headers.get("host") and is_ours(referrer.path)
    return f"{referrer.path}{f'?{referrer.query}' if referrer.query else ''}" if is_page else visit.url("/")


def read_failure(error: Exception) -> tuple[int, str]:
    """Status and words of an error. Pure."""
    if isinstance(error, HTTPException):
        unsaid = error.detail == HTTPStatus(error.status_code).phrase
        text = (
            "it may have been pruned, or the address is mistyped" if error.status_code == 404 else "look at the address"
        )
        return error.status_code, text if unsaid else error.detail
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return status, str(error)
    return 500, "this is a mistake in Homing; the log of the dashboard says where"


STATUSES: dict[type[Exception], int] = {
    NotPermitted: 403,
    Refused: 409,
    UnknownId: 404,
    ServerUnavailable: 503,
    UnsuitableServer: 503,
    ConfigurationError: 503,
}
