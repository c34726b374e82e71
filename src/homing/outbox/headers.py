"""What is kept beside a payload: where the event came from, and which shape it has."""

from dataclasses import replace
from typing import Any

from homing.events import EventType
from homing.trace import Trace, current_trace, span_trace


def causing_trace() -> Trace | None:
    """What caused an event recorded now: the trace that was entered, and the OpenTelemetry span that is current, which is the nearer parent."""
    entered, span = current_trace(), span_trace()
    if entered is None or span is None:
        return entered or span
    return replace(entered, traceparent=span.traceparent)


def headers_for(declared: EventType, trace: Trace) -> dict[str, Any]:
    """The headers of one event: `traceId`, `traceparent` if there is one, `version` unless it is 1."""
    headers: dict[str, Any] = {"traceId": trace.trace_id}
    if trace.traceparent is not None:
        headers["traceparent"] = trace.traceparent
    if declared.version != 1:
        headers["version"] = declared.version
    return headers
