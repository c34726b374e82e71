"""Which request a piece of work belongs to: the trace that was entered, and OpenTelemetry's spans where its SDK is set up."""

from homing.trace.entered import Trace, current_trace, enter_trace, new_trace, trace_context, trace_from_headers
from homing.trace.propagation import parse_traceparent, read_metadata, write_metadata
from homing.trace.spans import Span, SpanMaker, find_spans, name_of_error, span_trace

__all__ = [
    "Span",
    "SpanMaker",
    "Trace",
    "current_trace",
    "enter_trace",
    "find_spans",
    "name_of_error",
    "new_trace",
    "parse_traceparent",
    "read_metadata",
    "span_trace",
    "trace_context",
    "trace_from_headers",
    "write_metadata",
]
