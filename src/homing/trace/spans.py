"""Spans of OpenTelemetry, for applications that have set up its SDK, early or late; without one nothing is made and nothing imported."""

import logging
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, Self

from homing.trace.conventions import ERROR_TYPE, SCHEMA_URL, Operation, asks_for_both, attributes_of
from homing.trace.entered import Trace
from homing.trace.propagation import Parent, parse_traceparent

log = logging.getLogger("homing.trace")

Attributes = Mapping[str, str | int | None]
Beneath = Literal["nothing", "current"] | Parent
"""What a span is a child of: of nothing (a trace of its own), of the span that is current here, or of one far away."""


class Span:
    """A span under way, and the current one inside the block, for this task and what it starts.

    `trace` and `span_id` are `None` where the SDK is set up and switched off (`OTEL_SDK_DISABLED`): its spans are nobody's parents. An error that leaves the block is its error, and is raised on. Texts of errors are left out: they may quote a payload.
    """

    __slots__ = ("_api", "_span", "_token", "span_id", "trace")

    def __init__(self, api: Any, span: Any) -> None:
        self._api = api
        self._span = span
        context = span.get_span_context()
        self.trace = _trace(context) if context.is_valid else None
        self.span_id = f"{context.span_id:016x}" if context.is_valid else None

    def note(self, attribute: str, value: str | int) -> None:
        """Add an attribute."""
        self._span.set_attribute(attribute, value)

    def fail(self, error_type: str) -> None:
        """Give it the status of an error."""
        self._span.set_attribute(ERROR_TYPE, error_type)
        self._span.set_status(self._api.StatusCode.ERROR)

    def __enter__(self) -> Self:
        self._token = _context().attach(self._api.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.fail(name_of_error(error))
        _context().detach(self._token)
        try:
            self._span.end()
        except Exception as broken:  # noqa: BLE001 - the application's own processor: work does not fail because it cannot be watched
            tell_once(name_of_error(broken), str(broken))


class SpanMaker:
    """Starts spans with the application's SDK."""

    def __init__(self, api: Any, provider: Any) -> None:
        self._api = api
        self._tracer = provider.get_tracer("homing", schema_url=SCHEMA_URL)
        self._both = asks_for_both()

    def start(
        self,
        operation: Operation,
        destination: str,
        attributes: Attributes,
        *,
        beneath: Beneath = "nothing",
        links: Iterable[str | None] = (),
    ) -> Span:
        """Start a span; `links` are traceparents, of which the invalid ones are left out. An attribute that is `None` is unknown."""
        known = {name: value for name, value in attributes.items() if value is not None}
        parents = dict.fromkeys(parent for link in links if (parent := parse_traceparent(link)) is not None)
        try:
            span = self._tracer.start_span(
                f"{operation.verb} {destination}",
                context=self._parent(beneath),
                kind=self._api.SpanKind[operation.kind],
                attributes=attributes_of(operation, destination, both=self._both) | known,
                links=[self._api.Link(self._far(parent)) for parent in parents],
            )
        except Exception as broken:  # noqa: BLE001 - the application's own sampler or processor, as above
            tell_once(name_of_error(broken), str(broken))
            span = self._api.INVALID_SPAN
        return Span(self._api, span)

    def _parent(self, beneath: Beneath) -> Any:
        if beneath == "current":
            return None  # which is how its API says so
        nothing = _context().Context()
        if beneath == "nothing":
            return nothing
        return self._api.set_span_in_context(self._api.NonRecordingSpan(self._far(beneath)), nothing)

    def _far(self, parent: Parent) -> Any:
        flags = self._api.TraceFlags(parent.flags)
        return self._api.SpanContext(
            int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags
        )


def find_spans() -> SpanMaker | None:
    """Where spans are made now; `None` as long as no SDK is set up, and that costs no more than the question.

    Asked again for every span, so that it does not matter what was set up first.
    """
    api: Any = sys.modules.get("opentelemetry.trace")  # whoever set up an SDK has imported it
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if type(provider).__module__.startswith("opentelemetry.trace"):
        return None  # the API's own stand-ins: no SDK yet
    return _maker(api, provider)


def span_trace() -> Trace | None:
    """The trace of the span that is current here, whoever started it; `None` without one."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    return _trace(span) if span.is_valid else None


def name_of_error(error: BaseException) -> str:
    """The class of an error as `error.type` has it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@lru_cache(maxsize=64)
def tell_once(error_type: str, text: str) -> None:
    """Say what is wrong with the SDK's set-up; the same is said again only after much else."""
    log.warning("spans are lost, the application's OpenTelemetry set-up fails: %s: %s", error_type, text)


@lru_cache(maxsize=4)  # an application has one; tests may have some
def _maker(api: Any, provider: Any) -> SpanMaker:
    return SpanMaker(api, provider)


def _context() -> Any:
    return sys.modules["opentelemetry.context"]  # which `opentelemetry.trace` has imported


def _trace(span: Any) -> Trace:
    trace_id = f"{span.trace_id:032x}"
    return Trace(trace_id=trace_id, traceparent=f"00-{trace_id}-{span.span_id:016x}-{int(span.trace_flags):02x}")
