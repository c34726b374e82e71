"""What is kept beside a payload: where the event came from, and which shape it has."""

import sys
from typing import Any

from homing.events import EventType
from homing.trace import Trace, current_trace, new_trace


def causing_trace() -> Trace:
    """OpenTelemetry's current span if there is one, else the trace that was entered (see `homing.trace`), else a new one."""
    return _opentelemetry_trace() or current_trace() or new_trace()


def headers_for(declared: EventType, trace: Trace) -> dict[str, Any]:
    """The headers of one event: `traceId`, `traceparent` if there is one, `version` unless it is 1."""
    headers: dict[str, Any] = {"traceId": trace.trace_id}
    if trace.traceparent is not None:
        headers["traceparent"] = trace.traceparent
    if declared.version != 1:
        headers["version"] = declared.version
    return headers


def _opentelemetry_trace() -> Trace | None:
    api = sys.modules.get("opentelemetry.trace")  # not imported by anybody: then nobody can have started a span
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    trace_id = f"{span.trace_id:032x}"
    return Trace(trace_id=trace_id, traceparent=f"00-{trace_id}-{span.span_id:016x}-{int(span.trace_flags):02x}")
