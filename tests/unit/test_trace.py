"""Which trace a request's headers mean."""

import asyncio

import pytest

from homing.trace import Trace, current_trace, enter_trace, new_trace, trace_from_headers

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_valid_traceparent_wins() -> None:
    """Trace id and header are kept; the request id does not matter then; upper case and blanks around are forgiven."""
    header = f"00-{TRACE_ID}-{SPAN_ID}-01"
    expected = Trace(trace_id=TRACE_ID, traceparent=header)
    assert trace_from_headers(header, "req-1") == expected
    assert trace_from_headers(f" {header.upper()} ", None) == expected


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{SPAN_ID}",
        f"00-{TRACE_ID[:-1]}g-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01-more",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
    ],
)
def test_an_invalid_traceparent_falls_back_to_the_request_id(header: str) -> None:
    """What W3C calls invalid is treated as missing: zero ids, wrong lengths, version ff."""
    assert trace_from_headers(header, "req-1") == Trace(trace_id="req-1")


@pytest.mark.parametrize("request_id", [None, "", "x" * 129, "a\nb", "ä", "\x00"])
def test_a_request_id_that_cannot_be_kept_makes_a_new_trace(request_id: str | None) -> None:
    """Long, unprintable and non-ASCII ids never reach a log or a header."""
    trace = trace_from_headers(None, request_id)
    assert trace.trace_id != request_id
    assert len(trace.trace_id) == 32
    assert trace.traceparent is None


def test_traces_nest_and_end() -> None:
    """The inner trace ends with its block, also by an error, and the outer one is current again."""
    outer, inner = new_trace(), new_trace()
    with enter_trace(outer) as entered:
        assert entered is outer
        with enter_trace(inner):
            assert current_trace() is inner
        with pytest.raises(ZeroDivisionError), enter_trace(inner):
            raise ZeroDivisionError
        assert current_trace() is outer
    assert current_trace() is None


async def test_a_task_keeps_the_trace_it_was_started_in() -> None:
    """Work started inside the block belongs to the trace after the block has ended; its neighbours do not."""
    trace = new_trace()
    go = asyncio.Event()

    async def look() -> Trace | None:
        await go.wait()
        return current_trace()

    with enter_trace(trace):
        inside = asyncio.create_task(look())
    outside = asyncio.create_task(look())
    go.set()
    assert await inside == trace
    assert await outside is None
