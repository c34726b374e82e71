"""The page on tracing tells the truth: its code runs, and its names are those of the code."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from homing import Event
from homing.outbox.recording import prepare
from homing.trace import conventions
from homing.trace.conventions import Operation

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "tracing.md"
TEXT = PAGE.read_text(encoding="utf-8")


class Noted(Event, topic="order.placed"):
    """The page's event."""


@pytest.fixture
def page() -> dict[str, Any]:
    """What the page's blocks define, together."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page, executed on purpose
    return names


async def test_its_code_sets_tracing_up(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its middleware answers with the request's id, and with its SDK an event that is recorded is a span."""
    providers: list[Any] = [otel.ProxyTracerProvider()]
    monkeypatch.setattr(otel, "set_tracer_provider", providers.append)
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: providers[-1])
    exporter = InMemorySpanExporter()
    transport = httpx.ASGITransport(page["api"])
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        answer = await client.get("/", headers={"x-request-id": "req-1"})
    assert answer.headers["x-request-id"] == "req-1"
    page["set_up_tracing"]("shop", exporter)
    prepare([Noted()], available_at=None, ledger=None)
    providers[-1].force_flush()
    providers[-1].shutdown()
    (span,) = exporter.get_finished_spans()
    assert span.name == "record order.placed"
    assert span.resource.attributes["service.name"] == "shop"
    assert f"`{span.name}`" in TEXT


def test_it_names_what_there_is() -> None:
    """Every operation has its row, every attribute of ours and the pinned version are named."""
    rows = re.findall(r"^\| `(\w+) [\w.]+`[^|]*\| (\w+) \|", TEXT, re.MULTILINE)
    assert set(rows) == {(operation.verb, operation.kind.lower()) for operation in Operation}
    constants = [value for name, value in vars(conventions).items() if name.isupper()]
    ours = {name for name in constants if name.startswith("homing.")}
    assert [name for name in sorted(ours) if f"`{name}`" not in TEXT] == []
    assert f"version {conventions.SCHEMA_URL.rpartition('/')[2]}" in TEXT
    assert conventions.OPT_IN in TEXT
