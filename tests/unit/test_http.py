"""What an HTTP answer means for a job."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from homing import PermanentError, RetryLater, Throttled, Unauthorized
from homing.http import THROTTLE_SECONDS, TransientHTTPError, error_from_response, parse_retry_after

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "without", "with_header"),
    [
        (400, PermanentError, PermanentError),
        (401, Unauthorized, Unauthorized),
        (403, Unauthorized, Unauthorized),
        (404, PermanentError, PermanentError),
        (408, TransientHTTPError, RetryLater),
        (409, PermanentError, PermanentError),
        (422, PermanentError, PermanentError),
        (429, Throttled, Throttled),
        (500, TransientHTTPError, RetryLater),
        (502, TransientHTTPError, RetryLater),
        (503, TransientHTTPError, RetryLater),
        (504, TransientHTTPError, RetryLater),
    ],
)
def test_a_status_means_the_same_everywhere(
    status: int, without: type[Exception], with_header: type[Exception]
) -> None:
    """Each status has one meaning without and one with Retry-After, and the error names the call and the status."""
    bare = error_from_response(httpx.Response(status), "capture order 7")
    timed = error_from_response(httpx.Response(status, headers={"Retry-After": "7"}), "capture order 7")
    assert type(bare) is without
    assert type(timed) is with_header
    assert str(bare).startswith(f"capture order 7: HTTP {status}")
    if isinstance(timed, RetryLater | Throttled):
        assert timed.delay_seconds == 7


def test_a_429_without_a_header_waits_ten_seconds() -> None:
    """Somebody who does not say how long is asked again after 10 s."""
    error = error_from_response(httpx.Response(429), "ship")
    assert isinstance(error, Throttled)
    assert error.delay_seconds == THROTTLE_SECONDS == 10


def test_a_429_that_says_zero_is_obeyed() -> None:
    """Zero seconds is an answer, not a missing one."""
    error = error_from_response(httpx.Response(429, headers={"retry-after": "0"}), "ship")
    assert isinstance(error, Throttled)
    assert error.delay_seconds == 0


@pytest.mark.parametrize("status", [200, 204, 302, 399])
def test_a_success_is_no_error(status: int) -> None:
    """Asking for the error of a success is a mistake of the caller, and is told."""
    with pytest.raises(ValueError, match=f"ship: HTTP {status} is not an error"):
        error_from_response(httpx.Response(status), "ship")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("1.5", 1.5),
        ("-5", 0),
        ("86401", 86400),
        ("1e300", 86400),
        ("inf", 86400),
        ("-inf", 0),
        ("9" * 400, 86400),
        ("Thu, 01 Jan 2026 12:01:00 GMT", 60),
        ("Thursday, 01-Jan-26 12:01:00 GMT", 60),
        ("Thu Jan  1 12:01:00 2026", 60),
        ("Thu, 01 Jan 2026 13:01:00 +0100", 60),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", 86400),
    ],
)
def test_a_header_is_read_as_seconds_or_date(text: str, seconds: float) -> None:
    """Seconds and every date format of RFC 9110 are read; what is past is now, what is far is a day."""
    assert parse_retry_after(text, now=NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", [None, "", "   ", "soon", "nan", "5 seconds", "1,5", "0x10", "Thu, 99 Foo 2026 99:99:99 GMT", "\x00"]
)
def test_what_is_neither_is_no_answer(text: str | None) -> None:
    """Garbage counts as a missing header: the caller's default holds."""
    assert parse_retry_after(text, now=NOW) is None
