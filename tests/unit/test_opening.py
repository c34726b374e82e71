"""From a claimed job to a run, whatever its data is."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import field_validator

from homing import Event, Homing
from homing.events.envelope import foreign_id
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Parked
from homing.queue.parked import ParkedKind
from homing.worker.catalogue import Catalogue
from homing.worker.opening import PARKED_SECONDS, Unreadable, open_run
from homing.worker.run import Cause, Run

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")
TIME_MS = 1_767_225_600_000
DELIVERY: dict[str, Any] = {"consumer": "mail.send", "generation": 2, "openedAt": "2026-01-01T00:00:00+00:00"}


class Paid(Event, topic="opening.paid", unrouted=True, version=2):
    amount: int

    @field_validator("amount")
    @classmethod
    def _look_up(cls, amount: int) -> int:
        if amount == 4:
            raise SystemExit(amount)
        return {7: 7, 1: 1}[amount] if amount < 10 else amount


@Paid.upcast(from_version=1)
def rename(old: dict[str, Any]) -> dict[str, Any]:
    """Version 1 called it sum."""
    return {"amount": old["sum"]}


async def send(event: Paid) -> None:
    """A handler."""


def catalogue() -> Catalogue:
    """One handler of one queue."""
    app = Homing("test")
    app.queue("mail").handler("send", on=Paid, at_least_once=True)(send)
    return Catalogue(app.handlers)


def claimed(data: object, *, name: str = "send", job_id: str = "17", timestamp_ms: int = TIME_MS) -> ClaimedJob:
    """A claimed job; `data` is JSON text, or a value of which it is made."""
    return ClaimedJob(
        lease=Lease("mail", JobId(job_id), LeaseToken("t")),
        name=name,
        data=data if isinstance(data, str) else json.dumps(data),
        timestamp_ms=timestamp_ms,
        attempts=8,
        starts=2,
        attempts_made=1,
    )


def envelope(**changes: Any) -> dict[str, Any]:
    """An envelope of version 2."""
    return {"eventId": str(EVENT), "traceId": "t1", "version": 2, "payload": {"amount": 7}} | changes


def opened(job: ClaimedJob) -> Run:
    """The run that it must be."""
    run = open_run(job, catalogue())
    assert isinstance(run, Run)
    return run


def unreadable(job: ClaimedJob) -> Unreadable:
    """The verdict that it must be."""
    verdict = open_run(job, catalogue())
    assert isinstance(verdict, Unreadable)
    assert verdict.case.job is job
    assert verdict.case.handler.topic == "opening.paid"
    return verdict


def test_a_delivery_is_opened_as_itself() -> None:
    """Event id, consumer and generation are the delivery's; the handler sees them."""
    run = opened(claimed(envelope(delivery=DELIVERY)))
    assert run.event.model_dump() == {"amount": 7}
    assert (run.event_id, run.consumer, run.generation) == (EVENT, "mail.send", 2)
    view = run.view
    assert (view.id, view.queue, view.name, view.consumer) == ("17", "mail", "send", "mail.send")
    assert (view.event_id, view.trace_id, view.attempt, view.attempts, view.generation) == (EVENT, "t1", 2, 8, 2)
    assert view.recorded_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_delivery_keeps_the_name_of_its_row() -> None:
    """A handler that was renamed settles old deliveries under the name they were opened with."""
    run = opened(claimed(envelope(delivery=DELIVERY | {"consumer": "mail.old"})))
    assert run.consumer == "mail.old"
    assert run.handler.consumer == "mail.send"


def test_a_job_of_another_producer_is_known_by_queue_id_and_time() -> None:
    """The event id that its producer wrote is not trusted, and the same job is the same again."""
    run = opened(claimed(envelope()))
    assert run.event_id == foreign_id("mail", "17", TIME_MS) != EVENT
    assert (run.consumer, run.generation) == ("mail.send", None)
    assert run.view.generation == 1
    assert opened(claimed(envelope(), timestamp_ms=TIME_MS + 1)).event_id != run.event_id


def test_a_job_without_a_trace_is_named_after_itself() -> None:
    """Log lines of one job can be found together whatever its producer left out."""
    assert opened(claimed(envelope(traceId=None))).trace_id == "job-mail-17"


def test_an_older_payload_is_upcast() -> None:
    """What was recorded by older code is read by newer."""
    assert opened(claimed(envelope(version=1, payload={"sum": 7}))).event.model_dump() == {"amount": 7}


def test_an_unknown_job_is_parked() -> None:
    """A job that nobody here knows waits for a worker that does, with its name in the reason."""
    verdict = open_run(claimed(envelope(), name="other"), catalogue())
    assert isinstance(verdict, Parked)
    assert (verdict.delay_seconds, verdict.kind) == (PARKED_SECONDS, ParkedKind("other"))
    assert "no handler of job 'other' on queue 'mail'" in verdict.reason


def test_a_newer_payload_is_parked() -> None:
    """During a deployment newer payloads wait for newer code."""
    verdict = open_run(claimed(envelope(version=3)), catalogue())
    assert isinstance(verdict, Parked)
    assert verdict.kind == ParkedKind("send", version=3)
    assert "version 3, this code knows 2" in verdict.reason


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "null",
        "17",
        '"text"',
        "[]",
        "{}",
        '{"eventId":"17","payload":{}}',
        f'{{"eventId":"{EVENT}","payload":[]}}',
        f'{{"eventId":"{EVENT}"}}',
        "[" * 5000,
        "\ud800",
        "\x00",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_data_that_is_no_envelope_is_unreadable(data: str) -> None:
    """Anything may come from elsewhere: it is buried as it came, under the consumer that would have got it."""
    verdict = unreadable(claimed(data))
    assert verdict.case.generation is None
    assert verdict.case.consumer == "mail.send"
    assert verdict.report.error_class == "PayloadError"


@pytest.mark.parametrize(
    "change",
    [
        {"consumer": "a\x00b"},
        {"consumer": "a b"},
        {"consumer": ""},
        {"consumer": "x" * 201},
        {"generation": 0},
        {"generation": -1},
        {"generation": 32_768},
        {"generation": 10**30},
        {"openedAt": "2026-01-01T00:00:00"},
        {"openedAt": "9999-12-31T23:59:59Z"},
        {"openedAt": "yesterday"},
        {"openedAt": None},
    ],
    ids=repr,
)
def test_a_delivery_that_cannot_be_one_is_unreadable(change: dict[str, Any]) -> None:
    """The ledger is never asked a question that it could only answer with an error."""
    verdict = unreadable(claimed(envelope(delivery=DELIVERY | change)))
    assert verdict.case.generation is None


@pytest.mark.parametrize(
    ("changes", "error_class"),
    [
        ({"payload": {"amount": "much"}}, "PayloadError"),
        ({"payload": {}}, "PayloadError"),
        ({"version": 0}, "PayloadError"),
        ({"version": -(10**9)}, "PayloadError"),
        ({"version": 1, "payload": {}}, "KeyError"),
        ({"payload": {"amount": 3}}, "KeyError"),
        ({"payload": {"amount": 4}}, "SystemExit"),
    ],
    ids=["type", "missing", "version 0", "version far below", "error in an upcast", "error in a validator", "exit"],
)
@pytest.mark.parametrize("delivery", [None, DELIVERY | {"consumer": "mail.old"}], ids=["foreign", "delivery"])
def test_a_payload_that_no_retry_makes_readable_is_unreadable(
    changes: dict[str, Any], error_class: str, delivery: dict[str, Any] | None
) -> None:
    """Whatever decoding raises is this job's own end, and never the worker's."""
    verdict = unreadable(claimed(envelope(delivery=delivery, **changes)))
    assert verdict.case.consumer == ("mail.send" if delivery is None else "mail.old")
    assert verdict.case.generation == (None if delivery is None else delivery["generation"])
    assert verdict.report.error_class == error_class


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 10**18, -(10**18), 10**30])
def test_any_time_of_another_producer_is_read(timestamp_ms: int) -> None:
    """A time outside the calendar is its nearest end."""
    run = opened(claimed(envelope(), timestamp_ms=timestamp_ms))
    assert run.view.recorded_at.year in (1970, 9999)


def test_the_first_cause_of_an_end_counts() -> None:
    """A run that was told to end for one reason keeps it."""
    run = opened(claimed(envelope()))
    run.cancel(Cause.LEASE_LOST)
    run.cancel(Cause.TIMEOUT)
    assert run.cause is Cause.LEASE_LOST
