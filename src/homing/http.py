"""What an HTTP answer means for a job. Works with httpx and requests alike: only status and headers are read."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

from homing.errors import PermanentError, RetryLater, Throttled, Unauthorized

THROTTLE_SECONDS = 10.0
"""How long a 429 without `Retry-After` waits."""

MAX_RETRY_AFTER = timedelta(days=1)
"""The longest wait that another party may ask for; a longer one is cut to this."""


class Response(Protocol):
    """The two things an answer must have."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, case-insensitive as HTTP clients give them."""
        ...


class TransientHTTPError(Exception):
    """The other side failed in a way that may pass; the retry policy decides when to try again."""


def parse_retry_after(value: str | None, *, now: datetime | None = None) -> timedelta | None:
    """Read a `Retry-After` header (RFC 9110 §10.2.3): whole seconds or an HTTP date.

    The result lies between zero and `MAX_RETRY_AFTER`; a date in the past is zero. What is neither a number nor a date gives
    `None`, as a missing header does.
    """
    text = (value or "").strip()
    if not text:
        return None
    try:
        asked = float(text)
    except ValueError:
        asked = _seconds_until(text, now or datetime.now(UTC))
    if math.isnan(asked):
        return None
    return timedelta(seconds=min(max(asked, 0.0), MAX_RETRY_AFTER.total_seconds()))


def error_from_response(response: Response, context: str) -> Exception:
    """Turn an answer that is not a success into the error that says what to do about it.

    429 → `Throttled`; 408 and 5xx → `RetryLater` when the other side says how long, else transient; 401 and 403 →
    `Unauthorized`; every other 4xx → `PermanentError`, as the same request would be refused again. Whether a 409 means
    "it is there already" only the caller knows: look at it first.
    """
    status = response.status_code
    if status < 400:
        raise ValueError(f"{context}: HTTP {status} is not an error")
    text = f"{context}: HTTP {status}"
    wait = parse_retry_after(response.headers.get("retry-after"))
    if status == 429:
        return Throttled(THROTTLE_SECONDS if wait is None else wait, text)
    if status == 408 or status >= 500:
        return TransientHTTPError(text) if wait is None else RetryLater(wait, text)
    return Unauthorized(text) if status in (401, 403) else PermanentError(text)


def _seconds_until(text: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return math.nan
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
