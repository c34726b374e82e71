"""What happened to one delivery, in order, with reasons: from the recorded event to the end, or to what comes next. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from homing.dashboard import words
from homing.ledger.ledger import Row
from homing.operations.events import Lineage
from homing.queue.browse import JobState, ShownJob

Tone = Literal["", "good", "bad", "warn"]

A_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Happened:
    """One thing: when, what in a word or two, and why. `letter` is the dead letter that tells more."""

    at: datetime
    what: str
    why: str = ""
    tone: Tone = ""
    letter: int | None = None


def tell(lineage: Lineage | None, consumer: str | None, job: ShownJob | None) -> list[Happened]:
    """Everything that ledger and engine remember of a delivery or of a direct job, oldest first."""
    found: list[Happened] = []
    if lineage is not None:
        found += _event(lineage)
        for row in lineage.deliveries:
            if row["consumer"] == consumer:
                found += _delivery(row)
        for row in lineage.deaths:
            if row["consumer"] == consumer:
                found += _death(row)
    if job is not None:
        found += _job(job, is_ours=lineage is not None)
    return sorted(found, key=lambda each: each.at)


def _event(lineage: Lineage) -> Iterator[Happened]:
    event = lineage.event
    if event is None:
        return
    yield Happened(event.created_at, "recorded", f"event {event.topic}, in the transaction of what caused it")
    if event.available_at - event.created_at > A_MOMENT:
        yield Happened(event.available_at, "due", "it was recorded for later")
    if event.published_at is not None:
        routed_at = min(
            [event.published_at, *(row["opened_at"] for row in lineage.deliveries if row["generation"] == 1)]
        )
        waited = (routed_at - max(event.created_at, event.available_at)).total_seconds()
        yield Happened(routed_at, "routed", f"to its consumers, after {words.age(max(waited, 0.0))}")


def _delivery(row: Row) -> Iterator[Happened]:
    which = "" if row["generation"] == 1 else f", generation {row['generation']} after a redrive"
    edited = ", with an edited payload" if row["edited"] else ""
    yield Happened(row["opened_at"], "opened", f"delivery for queue {row['queue']}{which}{edited}")
    if row["settled_at"] is not None and row["outcome"] != "dead":
        tone: Tone = "good" if row["outcome"] == "done" else "warn"
        took = (row["settled_at"] - row["opened_at"]).total_seconds()
        yield Happened(row["settled_at"], f"settled: {row['outcome']}", f"after {words.age(max(took, 0.0))}", tone)


def _death(row: Row) -> Iterator[Happened]:
    error = ": ".join(part for part in (row["error_class"], row["error_text"]) if part)
    runs = words.count_of(row["attempts_made"], "run")
    yield Happened(row["failed_at"], f"died: {row['kind']}", f"after {runs}, {words.cut(error, 300)}", "bad", row["id"])
    if row["closed_at"] is not None:
        by = f" by {row['closed_by']}" if row["closed_by"] else ""
        yield Happened(row["closed_at"], str(row["closed_as"]), f"letter {row['id']} was closed{by}", "", row["id"])


def _job(job: ShownJob, *, is_ours: bool) -> Iterator[Happened]:
    if job.added_at is not None and not is_ours:
        yield Happened(job.added_at, "added", "to the queue, by a producer of its own")
    if job.started_at is not None:
        worker = f" on {job.worker}" if job.worker else ""
        attempt = job.attempts_made + (0 if job.finished_at is not None or job.state is not JobState.ACTIVE else 1)
        yield Happened(job.started_at, "started", f"run {max(attempt, 1)} of {job.attempts}{worker}")
    if job.finished_at is not None:
        is_bad = job.state is JobState.FAILED
        took = (
            "" if job.started_at is None else f"after {words.age((job.finished_at - job.started_at).total_seconds())}"
        )
        reason = f"{took}, {words.cut(job.reason, 300)}" if is_bad and job.reason and not is_ours else took
        yield Happened(
            job.finished_at, "job failed" if is_bad else "job completed", reason, "bad" if is_bad else "good"
        )
    if job.due_at is not None:
        yield Happened(job.due_at, "due", words.cut(job.reason, 300) or "it was put off until then", "warn")
