"""From a delivery's row to its job."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from homing import Keep, Retry, backoff
from homing.app.options import Options
from homing.durations import days, hours, minutes, seconds
from homing.events.envelope import unseal
from homing.ids import DeliveryKey
from homing.queue.job import JobEnd, KeepRule
from homing.relay.jobs import Unmakeable, data_of, deadline_seconds, job_of, try_job
from homing.relay.repairs import foreign_result

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
OPENED = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def row(**changes: Any) -> dict[str, Any]:
    """A row as `route` returns it."""
    found: dict[str, Any] = {
        "event_id": EVENT,
        "consumer": "payments.capture",
        "generation": 2,
        "queue": "payments",
        "job_name": "capture",
        "options": "{}",
        "opened_at": OPENED,
        "created_at": CREATED,
        "payload": '{"orderId":"7","note":"d’accord"}',
        "headers": '{"traceId":"t1","traceparent":"00-x-y-01","version":3}',
    }
    return found | changes


def test_a_job_carries_its_delivery() -> None:
    """Id, name, time and data follow from the row, and the data opens again as the same delivery."""
    job = job_of(row())
    assert job.id == f"{EVENT}.2.payments.capture"
    assert job.name == "capture"
    assert job.timestamp_ms == int(CREATED.timestamp() * 1000)
    envelope = unseal(job.data)
    assert envelope.delivery == DeliveryKey(EVENT, "payments.capture", 2)
    assert envelope.opened_at == OPENED
    assert (envelope.trace_id, envelope.traceparent, envelope.version) == ("t1", "00-x-y-01", 3)
    assert envelope.payload == {"orderId": "7", "note": "d’accord"}


def test_the_same_row_is_the_same_job() -> None:
    """Dispatching again adds nothing new, wherever the database shows its times."""
    elsewhere = row(created_at=CREATED.astimezone(timezone(timedelta(hours=7))))
    assert job_of(row()) == job_of(row()) == job_of(elsewhere)


def test_data_has_only_what_there_is() -> None:
    """A first version without a traceparent sends neither."""
    data = json.loads(job_of(row(headers="{}")).data)
    assert set(data) == {"eventId", "traceId", "payload", "delivery"}
    assert data["traceId"] is None


def test_options_survive_the_way_through_the_subscription() -> None:
    """What a handler declared is what its jobs are added with, byte for byte."""
    policy = Options(
        retry=Retry(attempts=12, backoff=backoff.capped(seconds(2), cap=minutes(15), jitter=0.25)),
        keep_completed=Keep(age=days(7)),
        keep_failed=Keep(count=3),
        deadline=hours(1),
    ).policy()
    stored = row(options=json.dumps(policy.job_options()))
    job = job_of(stored)
    assert job.attempts == 12
    assert job.backoff == policy.backoff
    assert job.keep_completed == KeepRule(age_seconds=7 * 86400)
    assert job.keep_failed == KeepRule(count=3)
    assert deadline_seconds(stored, 5.0) == 3600


def test_a_subscription_without_options_runs_once_and_keeps_everything() -> None:
    """A route that somebody wrote by hand still makes a job."""
    for options in (None, "{}"):
        job = job_of(row(options=options))
        assert job.attempts == 1
        assert job.backoff is None
        assert job.keep_completed == job.keep_failed == KeepRule()
        assert deadline_seconds(row(options=options), 5.0) == 5.0


@pytest.mark.parametrize(
    "broken",
    [
        {"headers": "[]"},
        {"headers": "{"},
        {"options": "[1]"},
        {"options": '{"backoff": {"kind": "fixed"}}'},
        {"created_at": None},
        {"payload": "{", "headers": '{"raw": true}'},
    ],
    ids=str,
)
def test_a_row_of_which_no_job_can_be_made_says_so(broken: dict[str, Any]) -> None:
    """Whatever the columns hold, the answer is the error and not an exception, and the payload is what is kept."""
    spoiled = row(**broken)
    assert isinstance(try_job(spoiled), Unmakeable)
    assert data_of(spoiled) == spoiled["payload"]
    assert deadline_seconds(spoiled, 5.0) == 5.0


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (None, None),
        ('{"a":1}', '{"a":1}'),
        ("null", None),
        ("{", None),
        ('"\\u0000"', None),
        ("[" * 50_000, None),
        (f'"{"x" * 70_000}"', None),
    ],
    ids=["none", "object", "null", "broken", "nul", "deep", "long"],
)
def test_results_of_other_systems_are_kept_where_they_can_be(result: str | None, kept: str | None) -> None:
    """Anybody may have written them: what is no JSON, or more than the ledger keeps, counts as no result."""
    assert foreign_result(JobEnd(result=result)) == kept
