"""What `record` decides before it looks at the connection it was given."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace as otel
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from homing import Event, record
from homing.errors import PayloadError, RecordError
from homing.events import MAX_PAYLOAD_BYTES
from homing.outbox import expect_ledger, expected_ledger
from homing.outbox.recording import MAX_BYTES, MAX_EVENTS, Recording, prepare
from homing.trace import Trace, enter_trace


class Noted(Event, topic="noted", aggregate="about"):
    """An event that takes anything."""

    about: str | None = None
    value: Any = None


class Priced(Event, topic="priced"):
    price: Decimal


class Untouchable:
    """Stands for a connection; looking at it in any way is an error."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the connection was touched: {name}")


UNTOUCHABLE: Any = Untouchable()

REFUSED: dict[str, tuple[Any, str]] = {
    "NUL": ("a\x00b", "NUL"),
    "NUL in a key": ({"a\x00": 1}, "NUL"),
    "lone surrogate": ("\ud800", "surrogate"),
    "lone surrogate in a key": ({"\udfff": 1}, "surrogate"),
    "NaN": (float("nan"), "NaN"),
    "infinity": (float("inf"), "infinity"),
    "minus infinity, nested": ({"a": [1, {"b": (2, float("-inf"))}]}, "infinity"),
    "2^53 + 1": (2**53 + 1, "str"),
    "-2^53 - 1, nested": ([[-(2**53) - 1]], "str"),
    "a float that jsonb would make a whole number": (1e23, "str"),
    "an object": (object(), "cannot be written as JSON"),
    "bytes that are no text": (b"\xff", "cannot be written as JSON"),
    "a secret": (SecretStr("hunter2"), "asterisks"),
    "more than 256 KB": ("x" * MAX_PAYLOAD_BYTES, "262,144"),
    "more than 256 KB of UTF-8": ("é" * (MAX_PAYLOAD_BYTES // 2), "262,144"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_payloads_that_cannot_travel_are_refused_untouched(case: str) -> None:
    """Each is a `PayloadError` that tells why, raised before anybody looks at the connection."""
    value, reason = REFUSED[case]
    with pytest.raises(PayloadError, match=reason):
        record(UNTOUCHABLE, Noted(value=value))


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), 1.5, "é" * 1000, {"a": [None, True]}, "x" * (MAX_PAYLOAD_BYTES - 30)]
)
def test_payloads_at_the_edge_are_taken(value: Any) -> None:
    """The largest exact integers and a payload just below the limit pass; then the connection is looked at."""
    with pytest.raises(AssertionError, match="touched"):
        record(UNTOUCHABLE, Noted(value=value))


def test_the_untouchable_connection_would_notice() -> None:
    """The object used above does fail when it is touched, so the tests above can fail."""
    with pytest.raises(AssertionError, match="touched"):
        record(UNTOUCHABLE)


def test_what_is_no_event_is_refused() -> None:
    """A dictionary, an event class or a base event without a topic cannot be recorded."""

    class Nameless(Event):
        value: int = 1

    wrong: list[Any] = [{"order_id": 1}, Noted, None]
    for thing in wrong:
        with pytest.raises(RecordError, match="is no event"):
            record(UNTOUCHABLE, thing)
    with pytest.raises(RecordError, match='class Nameless\\(Event, topic="…"\\)'):
        record(UNTOUCHABLE, Nameless())


def test_too_much_for_one_call_is_refused() -> None:
    """Neither the number of events nor their sum is unlimited."""
    with pytest.raises(RecordError, match="1,001 events"):
        record(UNTOUCHABLE, *(Noted() for _ in range(MAX_EVENTS + 1)))
    large = "x" * (MAX_PAYLOAD_BYTES - 100)
    with pytest.raises(RecordError, match="bytes of JSON in one call"):
        record(UNTOUCHABLE, *(Noted(value=large) for _ in range(MAX_BYTES // MAX_PAYLOAD_BYTES + 1)))


def test_two_facts_with_one_id_are_refused() -> None:
    """Only one of them could be kept; the same event twice is no problem."""
    event = Noted(value=1)
    other = Noted.decode({"value": 2}, event_id=event.event_id)
    with pytest.raises(RecordError, match=str(event.event_id)):
        record(UNTOUCHABLE, event, other)
    assert len(rows_of(event, event)) == 2


def test_a_time_without_zone_is_refused() -> None:
    """`available_at` must say which moment it means."""
    naive = datetime.now(UTC).replace(tzinfo=None)
    with pytest.raises(RecordError, match="no time zone"):
        record(UNTOUCHABLE, Noted(), available_at=naive)


def test_an_aggregate_id_is_checked_like_the_payload() -> None:
    """The id of the aggregate is its own column, and may be missing."""
    assert rows_of(Noted(about="order 7"))[0]["aggregateId"] == "order 7"
    assert rows_of(Noted(about=None))[0]["aggregateId"] is None
    with pytest.raises(PayloadError, match=r"Noted\.about"):
        rows_of(Noted(about="\x00"))


def test_a_row_says_what_was_asked() -> None:
    """Id, topic, payload, headers and moment of a row come from the event, the trace and the call."""
    event = Priced(price=Decimal("19.90"))
    due = datetime(2030, 1, 2, 3, 4, 5, 678, UTC)
    with enter_trace(Trace(trace_id="t-1")):
        (row,) = rows_of(event, available_at=due)
    assert row == {
        "id": str(event.event_id),
        "topic": "priced",
        "aggregateId": None,
        "payload": {"price": "19.90"},
        "headers": {"traceId": "t-1"},
        "availableAt": "2030-01-02T03:04:05.000678+00:00",
    }


def test_events_without_a_trace_get_one_together() -> None:
    """Work that no request caused has a trace of its own, one for all events of a call."""
    first, second = rows_of(Noted(), Noted())
    (third,) = rows_of(Noted())
    assert first["headers"]["traceId"] == second["headers"]["traceId"] != third["headers"]["traceId"]


def test_the_span_of_opentelemetry_is_the_parent() -> None:
    """A current span is recorded as the parent, and gives the trace its name unless one was entered: that name is in the log lines."""
    context = otel.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=otel.TraceFlags(1))
    trace_id = f"{0xABC:032x}"
    traceparent = f"00-{trace_id}-{0xDEF:016x}-01"
    with otel.use_span(otel.NonRecordingSpan(context)):
        (alone,) = rows_of(Noted())
        with enter_trace(Trace(trace_id="ours")):
            (inside,) = rows_of(Noted())
    with enter_trace(Trace(trace_id="ours")):
        (outside,) = rows_of(Noted())
    assert alone["headers"] == {"traceId": trace_id, "traceparent": traceparent}
    assert inside["headers"] == {"traceId": "ours", "traceparent": traceparent}
    assert outside["headers"] == {"traceId": "ours"}


def test_the_expected_ledger_is_restored() -> None:
    """Blocks nest, and the outermost end leaves no expectation."""
    outer, inner = uuid4(), uuid4()
    with expect_ledger(outer):
        with expect_ledger(inner):
            assert expected_ledger.get() == inner
        assert expected_ledger.get() == outer
    assert expected_ledger.get() is None


def test_the_parameters_are_text_or_null() -> None:
    """Drivers get plain text, whatever codecs the application has set for other types."""
    ledger = uuid4()
    assert Recording("[]", ledger).values() == {"events": "[]", "ledger": str(ledger)}
    assert Recording("[]", None).values() == {"events": "[]", "ledger": None}


def test_a_stranger_is_refused_by_name() -> None:
    """An object of no driver we know is named, and the text lists what is taken."""
    stranger: Any = object()
    with pytest.raises(RecordError, match=r"builtins\.object.*AsyncSession"):
        record(stranger, Noted())


def test_bind_arguments_of_a_session_need_no_events() -> None:
    """A session may be given bind arguments even when there is nothing to record."""
    with Session() as session:
        record(session, bind_arguments={})


def test_a_forgotten_await_is_noticed() -> None:
    """The coroutine that nobody awaits warns when it is collected (and mypy refuses it: tests/typing)."""
    forgotten = [record(AsyncSession(), Noted())]
    with pytest.warns(RuntimeWarning, match="never awaited"):
        forgotten.clear()


def test_importing_record_imports_no_driver() -> None:
    """A process that records through one driver does not load the others, nor SQLAlchemy, nor anything of OpenTelemetry."""
    code = (
        "import sys; import homing.outbox; "
        "print(sorted({'sqlalchemy', 'psycopg', 'opentelemetry', 'redis'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


def rows_of(*events: Event, available_at: datetime | None = None) -> list[dict[str, Any]]:
    """What would be sent to the database."""
    rows: list[dict[str, Any]] = json.loads(prepare(events, available_at=available_at, ledger=None).events)
    return rows


def test_a_moment_far_away_is_kept_exactly() -> None:
    """Offsets are sent as they are: the server does the conversion."""
    due = datetime(9999, 12, 31, 23, 59, tzinfo=UTC) - timedelta(days=1)
    assert rows_of(Noted(), available_at=due)[0]["availableAt"] == "9999-12-30T23:59:00+00:00"
