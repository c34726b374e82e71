"""A job's data, sealed by a relay and opened by a worker or by Node."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from homing.errors import PayloadError
from homing.events import foreign_id, seal, unseal
from homing.ids import DeliveryKey

EVENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
KEY = DeliveryKey(EVENT, "payments.capture", 2)
OPENED = datetime(2030, 1, 2, 3, 4, 5, 6, UTC)


def test_the_wire_format() -> None:
    """Field names and values are a contract with other languages: they are written out here."""
    headers = {"traceId": "t-1", "traceparent": "00-a-b-01", "version": 3}
    data = seal(key=KEY, opened_at=OPENED, payload_json='{"orderId": 7}', headers=headers)
    assert json.loads(data) == {
        "eventId": "01890a5d-ac96-774b-bcce-b302099a8057",
        "traceId": "t-1",
        "payload": {"orderId": 7},
        "traceparent": "00-a-b-01",
        "version": 3,
        "delivery": {"consumer": "payments.capture", "generation": 2, "openedAt": "2030-01-02T03:04:05.000006+00:00"},
    }


def test_what_is_not_said_is_not_sent() -> None:
    """Version 1 and a missing traceparent take no room; a missing trace id is null."""
    data = json.loads(seal(key=KEY, opened_at=OPENED, payload_json="{}", headers={"version": 1}))
    assert data.keys() == {"eventId", "traceId", "payload", "delivery"}
    assert data["traceId"] is None


def test_opening_gives_back_what_was_sealed() -> None:
    """Identity, times, headers and payload survive; the text is kept as it came."""
    data = seal(key=KEY, opened_at=OPENED, payload_json='{"note": "Ổi"}', headers={"traceId": "t", "version": 2})
    envelope = unseal(data)
    assert (envelope.delivery, envelope.opened_at, envelope.event_id) == (KEY, OPENED, EVENT)
    assert (envelope.trace_id, envelope.traceparent, envelope.version) == ("t", None, 2)
    assert envelope.payload == {"note": "Ổi"}
    assert envelope.raw == data


@pytest.mark.parametrize(
    ("raw", "payload", "trace_id", "version"),
    [
        ('{"eventId": "e", "traceId": "t9", "version": 2, "payload": {"a": 1}}', {"a": 1}, "t9", 2),
        ('{"traceId": 7, "version": "x", "payload": {"a": 1}}', {"a": 1}, None, 1),
        ('{"a": 1}', {"a": 1}, None, 1),
        ('{"payload": 3}', {"payload": 3}, None, 1),
        ("[1]", {"raw": [1]}, None, 1),
    ],
)
def test_an_adopted_job_is_taken_apart(raw: str, payload: dict[str, Any], trace_id: str | None, version: int) -> None:
    """Another producer's job runs again as a delivery with the payload that was inside; what is no envelope stays for its handler to refuse."""
    envelope = unseal(seal(key=KEY, opened_at=OPENED, payload_json=raw, headers={"raw": True}))
    assert (envelope.payload, envelope.trace_id, envelope.version) == (payload, trace_id, version)
    assert (envelope.delivery, envelope.event_id) == (KEY, EVENT)


def test_a_foreign_job_has_no_delivery() -> None:
    """The three outer fields are enough; unknown ones are ignored."""
    envelope = unseal(json.dumps({"eventId": str(EVENT), "traceId": None, "payload": {"a": 1}, "more": True}))
    assert envelope.delivery is None
    assert envelope.opened_at is None
    assert envelope.version == 1


@pytest.mark.parametrize(
    "data", ["", "null", "[]", "{}", '{"eventId": "x", "payload": {}}', f'{{"eventId": "{EVENT}", "payload": 1}}']
)
def test_what_is_no_envelope_is_refused(data: str) -> None:
    """Other producers may send anything: it is one error that names what an envelope has."""
    with pytest.raises(PayloadError, match="eventId, traceId, payload"):
        unseal(data)


SAME: dict[str, tuple[Any, Any, bool]] = {
    "the same job": (("q", "1", 5), ("q", "1", 5), True),
    "a counter that began again": (("q", "1", 5), ("q", "1", 6), False),
    "another queue": (("q", "1", 5), ("r", "1", 5), False),
    "another job": (("q", "1", 5), ("q", "2", 5), False),
    "a tick that was added twice": (("q", "repeat:a:1", 5), ("q", "repeat:a:1", 6), True),
    "another tick": (("q", "repeat:a:1", 5), ("q", "repeat:a:2", 5), False),
}


@pytest.mark.parametrize("case", SAME)
def test_foreign_jobs_are_told_apart(case: str) -> None:
    """Queue, id and time make a foreign job; a scheduler's tick has its time in its id."""
    one, other, same = SAME[case]
    assert (foreign_id(*one) == foreign_id(*other)) is same


def test_what_does_not_fit_is_told_without_its_values() -> None:
    """The error names fields and says what is wrong with them; payloads belong in no log line."""
    with pytest.raises(PayloadError) as caught:
        unseal(json.dumps({"eventId": "secret-1", "payload": ["secret-2"], "version": "secret-3"}))
    assert "eventId: " in str(caught.value)
    assert "payload: " in str(caught.value)
    assert "secret" not in str(caught.value)
