"""Spans: made only with an SDK, whenever that was set up; linked by what travels in text."""

import json
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from homing import Event
from homing.config.settings import Settings
from homing.errors import PayloadError
from homing.outbox.recording import prepare
from homing.trace import Trace, enter_trace, find_spans, read_metadata, write_metadata
from homing.trace.conventions import Operation
from homing.trace.spans import tell_once
from homing.upkeep.doctor import examine_tracing
from tests.exporting import linked, set_up, traceparent_of

FAR = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Placed(Event, topic="order.placed"):
    """An order."""

    note: str = ""


def headers_of(*events: Event) -> list[dict[str, Any]]:
    """The headers that recording would keep."""
    return [row["headers"] for row in json.loads(prepare(events, available_at=None, ledger=None).events)]


def test_without_an_sdk_there_are_no_spans_and_the_request_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace of the request is what headers hold; an SDK that is set up later is used from then on."""
    assert find_spans() is None
    with enter_trace(Trace(trace_id="req-1", traceparent=FAR)):
        assert headers_of(Placed()) == [{"traceId": "req-1", "traceparent": FAR}]
        exported = set_up(monkeypatch)
        (headers,) = headers_of(Placed())
    span = exported.one("record order.placed")
    assert headers == {"traceId": "req-1", "traceparent": traceparent_of(span)}


def test_a_recorded_event_is_a_span_beneath_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the kind and the words of the conventions, and its parent is the current span, else the entered trace's."""
    exported = set_up(monkeypatch)
    event = Placed()
    with otel.get_tracer_provider().get_tracer("web").start_as_current_span("POST /orders") as request:
        headers_of(event)
    span = exported.one("record order.placed")
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    assert span.kind is SpanKind.PRODUCER
    assert dict(span.attributes or {}) == {
        "messaging.system": "homing",
        "messaging.operation.name": "record",
        "messaging.operation.type": "create",
        "messaging.destination.name": "order.placed",
        "messaging.message.conversation_id": str(event.event_id),
        "homing.topic": "order.placed",
    }
    with enter_trace(Trace(trace_id=FAR[3:35], traceparent=FAR)):
        headers_of(Placed())
    *_, second = exported.all("record order.placed")
    assert second.parent is not None
    assert f"{second.parent.span_id:016x}" == FAR[36:52]


def test_events_that_nothing_caused_share_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first event of the call begins the trace."""
    exported = set_up(monkeypatch)
    first, second = headers_of(Placed(), Placed())
    spans = exported.all("record order.placed")
    assert [traceparent_of(span) for span in spans] == [first["traceparent"], second["traceparent"]]
    assert first["traceId"] == second["traceId"] == first["traceparent"][3:35] == second["traceparent"][3:35]


def test_an_event_that_cannot_be_recorded_is_a_failed_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """The span has the status and the class of the error, and none of its words: they may quote the payload."""
    exported = set_up(monkeypatch)
    with pytest.raises(PayloadError):
        headers_of(Placed(note="secret\x00"))
    span = exported.one("record order.placed")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "homing.errors.PayloadError"
    assert "secret" not in span.to_json()


def test_an_sdk_that_is_switched_off_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_SDK_DISABLED` makes spans that are nobody's parents: the trace of the request is kept."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    set_up(monkeypatch)
    with enter_trace(Trace(trace_id="req-1", traceparent=FAR)):
        assert headers_of(Placed()) == [{"traceId": "req-1", "traceparent": FAR}]
    assert headers_of(Placed())[0].keys() == {"traceId"}


def test_a_set_up_that_fails_costs_spans_and_no_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a processor of the application raises is told once; the event is recorded with the trace of its request."""

    class Broken(SpanProcessor):
        def on_start(self, span: object, parent_context: object = None) -> None:
            if "start" in broken:
                raise RuntimeError("no disk")

        def on_end(self, span: object) -> None:
            raise RuntimeError("no network")

    broken = {"start"}
    tell_once.cache_clear()
    set_up(monkeypatch).provider.add_span_processor(Broken())
    with enter_trace(Trace(trace_id="req-1", traceparent=FAR)):
        assert headers_of(Placed(), Placed()) == [{"traceId": "req-1", "traceparent": FAR}] * 2
        broken.clear()
        (headers,) = headers_of(Placed())
    assert headers["traceparent"] not in {None, FAR}
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == ["no disk", "no network"]


def test_links_are_what_headers_say_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no traceparent is left out, and so is a second link to the same span."""
    exported = set_up(monkeypatch)
    spans = find_spans()
    assert spans is not None
    with spans.start(Operation.DISPATCH, "mail", {"server.port": None}, links=[FAR, None, "junk", FAR.upper()]):
        pass
    span = exported.one("dispatch mail")
    assert linked(span) == [FAR]
    assert span.parent is None
    assert "server.port" not in (span.attributes or {})


def test_the_older_attribute_comes_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`messaging/dup` adds `messaging.operation` to the names that replaced it."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup")
    exported = set_up(monkeypatch)
    headers_of(Placed())
    attributes = exported.one("record order.placed").attributes or {}
    assert (attributes["messaging.operation"], attributes["messaging.operation.type"]) == ("create", "create")


@pytest.mark.parametrize(
    "metadata", [None, 7, "", "{", "[]", '{"traceparent":1}', '{"traceparent":"x"}', "[" * 100_000, '"' + "x" * 20_000]
)
def test_metadata_that_is_none_is_no_trace(metadata: object) -> None:
    """Other producers may write anything into a job's options."""
    assert read_metadata(metadata) is None


def test_metadata_travels_as_node_writes_it() -> None:
    """JSON of the propagation headers, other ones beside it ignored."""
    written = write_metadata(FAR)
    assert written is not None
    assert json.loads(written) == {"traceparent": FAR}
    assert read_metadata(written) == FAR
    assert read_metadata(json.dumps({"traceparent": FAR, "tracestate": "x=1"})) == FAR
    assert write_metadata("nonsense") is None


def test_the_doctor_says_whether_there_are_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks for spans in vain learns that no SDK is set up; who has one, what runs are to their causes."""
    settings = Settings(trace_relation="parent")
    assert "no OpenTelemetry SDK" in examine_tracing(settings).text
    set_up(monkeypatch)
    assert "runs are children of what created their events" in examine_tracing(settings).text
