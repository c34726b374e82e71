"""From a delivery's row to the job that carries it. Pure."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict

from homing.backoff import Backoff
from homing.events.envelope import seal
from homing.ids import DeliveryKey
from homing.ledger.ledger import Row
from homing.queue.job import KeepRule, NewJob


def job_of(row: Row) -> NewJob:
    """The job of a delivery, always the same for the same delivery: dispatching it again is harmless.

    `row` has what `route.sql` and `payloads.sql` return.
    """
    key = DeliveryKey(row["event_id"], row["consumer"], row["generation"])
    headers = json.loads(row["headers"])
    return NewJob(
        id=key.job_id,
        name=row["job_name"],
        data=seal(
            key=key,
            opened_at=row["opened_at"],
            payload_json=row["payload"],
            headers=headers,
        ),
        timestamp_ms=int(row["created_at"].timestamp() * 1000),
        traceparent=None if headers.get("raw") else headers.get("traceparent"),
        **_terms(row["options"]),
    )


@dataclass(frozen=True, slots=True)
class Unmakeable:
    """No job can be made of a row: anybody may have written its event or its subscription. `error` says what is wrong with it."""

    error: Exception


def try_job(row: Row) -> NewJob | Unmakeable:
    """The job of a delivery, or why there can be none: one bad row must not stop the rows beside it."""
    try:
        return job_of(row)
    except Exception as error:  # noqa: BLE001 - whatever the data of the row breaks: it is reported with the row
        return Unmakeable(error)


def data_of(row: Row) -> str:
    """What is kept of a delivery in its dead letter: the data of its job, or the bare payload when there can be no job."""
    job = try_job(row)
    return str(row["payload"]) if isinstance(job, Unmakeable) else job.data


def deadline_seconds(row: Row, otherwise: float) -> float:
    """How long after its opening the delivery may still start a run; options that make no sense say nothing."""
    try:
        return float(json.loads(row["options"] or "{}").get("deadlineSeconds", otherwise))
    except (ValueError, TypeError, AttributeError):
        return otherwise


class _Terms(TypedDict):
    """What a subscription's options say of its jobs."""

    attempts: int
    backoff: Backoff | None
    keep_completed: KeepRule
    keep_failed: KeepRule


@lru_cache(maxsize=256)  # a subscription says the same of all its jobs
def _terms(text: str | None) -> _Terms:
    options = json.loads(text or "{}")
    return _Terms(
        attempts=options.get("attempts", 1),
        backoff=_backoff(options.get("backoff")),
        keep_completed=_keep(options.get("keepCompleted")),
        keep_failed=_keep(options.get("keepFailed")),
    )


def _backoff(stored: dict[str, Any] | None) -> Backoff | None:
    if stored is None:
        return None
    return Backoff(
        kind=stored["kind"],
        delay_seconds=stored["delaySeconds"],
        jitter=stored["jitter"],
        cap_seconds=stored["capSeconds"],
    )


def _keep(stored: dict[str, Any] | None) -> KeepRule:
    return KeepRule() if stored is None else KeepRule(age_seconds=stored["ageSeconds"], count=stored["count"])
