"""The trace middleware, driven as any ASGI server would."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from opentelemetry import trace as otel

from homing.asgi import Application, Receive, Scope, Send, TraceMiddleware
from homing.trace import Trace, current_trace

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
Headers = list[tuple[bytes, bytes]]


async def never() -> MutableMapping[str, Any]:
    """No application here reads a body."""
    raise AssertionError("nothing should be received")


async def ask(
    headers: Headers, *, kind: str = "http", start: str = "http.response.start", answered: Headers | None = None
) -> tuple[Trace | None, Headers]:
    """The trace that the application saw, and the headers of its response."""
    seen: list[Trace | None] = []
    sent: list[MutableMapping[str, Any]] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(current_trace())
        await send({"type": start, "status": 200} if answered is None else {"type": start, "headers": answered})
        await send({"type": "http.response.body"})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await TraceMiddleware(app)({"type": kind, "headers": headers}, never, send)
    assert current_trace() is None
    assert sent[1] == {"type": "http.response.body"}
    return seen[0], list(sent[0].get("headers", []))


async def test_a_traceparent_is_the_trace() -> None:
    """The request's trace context is entered, and its trace id is answered."""
    trace, headers = await ask([(b"traceparent", TRACEPARENT.encode())])
    assert trace == Trace(trace_id=TRACE_ID, traceparent=TRACEPARENT)
    assert headers == [(b"x-request-id", TRACE_ID.encode())]


async def test_a_span_that_was_started_for_the_request_is_its_trace() -> None:
    """What OpenTelemetry began before us is entered and answered, so that spans, events and responses agree; a request's own id comes back."""
    span = otel.SpanContext(int(TRACE_ID, 16), int(SPAN_ID, 16), is_remote=False, trace_flags=otel.TraceFlags(1))
    with otel.use_span(otel.NonRecordingSpan(span)):
        trace, headers = await ask([])
        asked, echoed = await ask([(b"x-request-id", b"req-1")])
    assert trace == asked == Trace(trace_id=TRACE_ID, traceparent=TRACEPARENT)
    assert headers == [(b"x-request-id", TRACE_ID.encode())]
    assert echoed == [(b"x-request-id", b"req-1")]


async def test_a_request_id_is_the_trace_and_comes_back() -> None:
    """Without trace context the caller's request id joins everything, and is echoed."""
    trace, headers = await ask([(b"X-Request-ID", b"req-42")])
    assert trace == Trace(trace_id="req-42")
    assert headers == [(b"x-request-id", b"req-42")]


async def test_both_headers_keep_their_own_meaning() -> None:
    """The trace comes from `traceparent`; the answer carries the request id that was sent."""
    trace, headers = await ask([(b"traceparent", TRACEPARENT.encode()), (b"x-request-id", b"req-42")])
    assert trace == Trace(trace_id=TRACE_ID, traceparent=TRACEPARENT)
    assert headers == [(b"x-request-id", b"req-42")]


@pytest.mark.parametrize("request_id", [b"", b"a\r\nset-cookie: b", b"\xff", b"x" * 129])
async def test_a_request_id_that_could_hurt_is_replaced(request_id: bytes) -> None:
    """Line breaks, other bytes and long texts are neither entered nor echoed."""
    trace, headers = await ask([(b"x-request-id", request_id)])
    assert trace is not None
    assert len(trace.trace_id) == 32
    assert headers == [(b"x-request-id", trace.trace_id.encode())]


async def test_contradicting_headers_say_nothing() -> None:
    """Two different values of a header are as good as none; the same value twice is one."""
    trace, _ = await ask([(b"x-request-id", b"a"), (b"x-request-id", b"b")])
    assert trace is not None
    assert trace.trace_id not in {"a", "b"}
    trace, _ = await ask([(b"x-request-id", b"a"), (b"x-request-id", b"a")])
    assert trace == Trace(trace_id="a")


async def test_requests_without_headers_get_a_trace_each() -> None:
    """A new trace per request."""
    first, _ = await ask([])
    second, _ = await ask([])
    assert first is not None
    assert second is not None
    assert first != second


async def test_the_applications_own_request_id_is_left_alone() -> None:
    """A response that has the header already keeps it, once; other headers stay in front."""
    _, headers = await ask([], answered=[(b"X-Request-Id", b"mine")])
    assert headers == [(b"X-Request-Id", b"mine")]
    _, headers = await ask([(b"x-request-id", b"r")], answered=[(b"content-type", b"text/plain")])
    assert headers == [(b"content-type", b"text/plain"), (b"x-request-id", b"r")]


@pytest.mark.parametrize("start", ["websocket.accept", "websocket.http.response.start"])
async def test_websockets_have_a_trace_too(start: str) -> None:
    """The handshake's answer carries the id, and everything said on the socket belongs to the trace."""
    trace, headers = await ask([(b"x-request-id", b"ws-1")], kind="websocket", start=start)
    assert trace == Trace(trace_id="ws-1")
    assert headers == [(b"x-request-id", b"ws-1")]


async def test_a_lifespan_is_passed_on() -> None:
    """What is no request has no headers and no trace."""
    seen: list[tuple[object, object]] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((receive, send))
        assert current_trace() is None

    async def send(_message: MutableMapping[str, Any]) -> None:
        """Nothing is sent."""

    application: Application = app
    await TraceMiddleware(application)({"type": "lifespan"}, never, send)
    assert seen == [(never, send)]


async def test_a_failing_application_leaves_no_trace() -> None:
    """The trace ends with the request, also when the request ends in an error."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ask_with(app)
    assert current_trace() is None


async def ask_with(app: Application) -> None:
    """One request that nobody answers."""

    async def send(_message: MutableMapping[str, Any]) -> None:
        """Nothing is sent."""

    await TraceMiddleware(app)({"type": "http", "headers": []}, never, send)
