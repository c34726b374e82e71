"""An OpenTelemetry SDK for one test, which keeps the spans that an application would export."""

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Exported:
    """What was exported, in the order of the ends."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self, name: str) -> list[ReadableSpan]:
        """The spans of this name."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        (span,) = self.all(name)
        return span


def set_up(monkeypatch: pytest.MonkeyPatch) -> Exported:
    """Set an SDK up, until the end of the test: the API itself takes one only once in a process."""
    exported = Exported()
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: exported.provider)
    return exported


def traceparent_of(span: ReadableSpan) -> str:
    """How a span is written in headers."""
    context = span.context
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def linked(span: ReadableSpan) -> list[str]:
    """The contexts that a span links to, as headers have them."""
    return [
        f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-{int(link.context.trace_flags):02x}"
        for link in span.links
    ]
