"""The trace of each event that is recorded: what caused it, or where an OpenTelemetry SDK is set up, a span of its own beneath that."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from homing.events import Event
from homing.outbox.headers import causing_trace
from homing.trace import Span, SpanMaker, Trace, find_spans, new_trace, parse_traceparent, span_trace
from homing.trace.conventions import CONVERSATION_ID, TOPIC, Operation

Row = dict[str, Any]


def create_rows(events: Sequence[Event], make_row: Callable[[Event, Trace], Row]) -> list[Row]:
    """Make the row of each event; its trace is what the headers keep. The events of a call that nothing caused have a trace together."""
    cause, spans = causing_trace(), find_spans()
    if spans is None:
        trace = cause or new_trace()
        return [make_row(event, trace) for event in events]
    rows: list[Row] = []
    for event in events:
        with _creation(spans, event, cause) as span:
            cause = cause or span.trace or new_trace()
            nearest = cause if span.trace is None else replace(cause, traceparent=span.trace.traceparent)
            rows.append(make_row(event, nearest))
    return rows


def _creation(spans: SpanMaker, event: Event, cause: Trace | None) -> Span:
    topic = event.event_type.topic
    far = None if cause is None else parse_traceparent(cause.traceparent)
    return spans.start(
        Operation.RECORD,
        topic,
        {TOPIC: topic, CONVERSATION_ID: str(event.event_id)},
        beneath="current" if span_trace() else far or "nothing",
    )
