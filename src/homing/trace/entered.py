"""Which request a piece of work belongs to: carried in a context variable, with or without OpenTelemetry."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from homing.records import quickly_made
from homing.trace.propagation import Parent, parse_traceparent


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The trace id that joins log lines, and the W3C `traceparent` where the request brought or made one."""

    trace_id: str
    traceparent: str | None = None


trace_context: ContextVar[Trace | None] = ContextVar("homing_trace", default=None)
"""The trace that `enter_trace` made the current one."""


def current_trace() -> Trace | None:
    """The trace of the running request or job, if one was entered."""
    return trace_context.get()


@contextmanager
def enter_trace(trace: Trace) -> Iterator[Trace]:
    """Make `trace` the current one inside the block, for this task and what it starts."""
    token = trace_context.set(trace)
    try:
        yield trace
    finally:
        trace_context.reset(token)


def new_trace() -> Trace:
    """A trace of its own, for work that no request caused."""
    return Trace(trace_id=secrets.token_hex(16))


def trace_of(parent: Parent) -> Trace:
    """The trace that a valid `traceparent` names."""
    return Trace(trace_id=parent.trace_id, traceparent=parent.text)


def trace_from_headers(traceparent: str | None, request_id: str | None) -> Trace:
    """The trace of an incoming request: its valid `traceparent` (W3C Trace Context), else its `X-Request-ID`, else a new one."""
    parent = parse_traceparent(traceparent)
    if parent is not None:
        return trace_of(parent)
    if request_id and len(request_id) <= 128 and request_id.isascii() and request_id.isprintable():
        return Trace(trace_id=request_id)
    return new_trace()
