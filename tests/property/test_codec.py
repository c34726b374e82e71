"""Whatever payload is accepted comes back from PostgreSQL as it was."""

import json
from decimal import Decimal
from typing import Any

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from homing import Event, record
from homing.errors import PayloadError
from homing.events import check_json, encode_payload

Connection = psycopg.Connection[tuple[Any, ...]]


class Line(BaseModel):
    """A part of an event."""

    name: str
    weight: float
    count: int


class Everything(Event, topic="test.everything"):
    """Typed fields, parts, and a place for any JSON."""

    price: Decimal
    lines: list[Line]
    extra: dict[str, Any]
    anything: Any


_EXACT = 2**53
harmless_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
harmless_integers = st.integers(-_EXACT, _EXACT)
harmless_floats = st.floats(-_EXACT, _EXACT)


def nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON of any shape."""
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=15
    )


harmless = nested(st.none() | st.booleans() | harmless_integers | harmless_floats | harmless_text, harmless_text)
wild_text = st.text(st.characters(), max_size=5)
wild = nested(st.none() | st.integers() | st.floats() | wild_text | st.binary(max_size=3), wild_text)


def events(values: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Everything]:
    """Events whose free fields hold these values."""
    lines = st.builds(Line, name=harmless_text, weight=harmless_floats, count=harmless_integers)
    return st.builds(
        Everything,
        price=st.decimals(allow_nan=False, allow_infinity=False),
        lines=st.lists(lines, max_size=3),
        extra=st.dictionaries(keys, values, max_size=4),
        anything=values,
    )


def stored(conn: Connection, event: Event) -> dict[str, Any]:
    """The payload after a way through jsonb, in a transaction that is forgotten."""
    with conn.transaction(force_rollback=True):
        record(conn, event)
        row = conn.execute("SELECT payload::text FROM homing.outbox_events WHERE id = %s", [event.event_id]).fetchone()
    assert row is not None
    payload: dict[str, Any] = json.loads(row[0])
    return payload


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same JSON types: 1 is not 1.0 and not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_harmless_payloads_are_accepted_and_come_back(database_url: str) -> None:
    """Every payload of valid text and exact numbers is accepted, comes back equal, and decodes to the same event."""

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(event=events(harmless, harmless_text))
    def check(event: Everything) -> None:
        payload = stored(conn, event)
        assert same(payload, encode_payload(event))
        assert Everything.decode(payload, event_id=event.event_id) == event

    with psycopg.connect(database_url) as conn:
        check()


def test_wild_payloads_are_refused_or_come_back(database_url: str) -> None:
    """Whatever is thrown at it, a payload is refused before the database sees it, or it comes back as it was encoded."""
    outcomes: set[str] = set()

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(event=events(wild, wild_text))
    def check(event: Everything) -> None:
        try:
            encoded = encode_payload(event)
        except PayloadError:
            outcomes.add("refused")
        else:
            assert same(stored(conn, event), encoded)
            outcomes.add("stored")

    with psycopg.connect(database_url) as conn:
        check()
    assert outcomes == {"refused", "stored"}


@given(value=harmless)
def test_harmless_json_passes_the_check(value: Any) -> None:
    """The check refuses nothing that can travel."""
    check_json(value, "value")
