"""The trace of a web request, for any ASGI framework: what is recorded while it runs belongs to it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from homing.trace import Trace, enter_trace, span_trace, trace_from_headers

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_REQUEST_ID = b"x-request-id"
_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


class TraceMiddleware:
    """Enter a trace for each HTTP request and websocket: its `traceparent`, else its `X-Request-ID`, else a new one.

    Where OpenTelemetry has started a span for the request already, that is its trace: one that it was sent, or a new one.
    Responses carry `x-request-id`: the one the request came with, else the trace id; one that the application set is left alone.
    """

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        asked = _only(scope, _REQUEST_ID)
        trace = span_trace() or trace_from_headers(_only(scope, b"traceparent"), asked)
        answer = _answer(asked, trace).encode("ascii")

        async def send_with_id(message: Message) -> None:
            if message["type"] in _STARTS:
                message = _with_request_id(message, answer)
            await send(message)

        with enter_trace(trace):
            await self._app(scope, receive, send_with_id)


def _answer(asked: str | None, trace: Trace) -> str:
    # Echoed only if it is of a length and alphabet that we would keep.
    if asked is not None and trace_from_headers(None, asked).trace_id == asked:
        return asked
    return trace.trace_id


def _only(scope: Scope, name: bytes) -> str | None:
    """The value of a header that came once; two that differ say nothing."""
    values = {value for key, value in scope["headers"] if key.lower() == name}
    return values.pop().decode("latin-1") if len(values) == 1 else None


def _with_request_id(message: Message, request_id: bytes) -> Message:
    headers = list(message.get("headers") or ())
    if any(key.lower() == _REQUEST_ID for key, _ in headers):
        return message
    return {**message, "headers": [*headers, (_REQUEST_ID, request_id)]}
