"""Schedules as rows of the ledger."""

from collections.abc import Iterable, Sequence
from typing import Any

from homing.app.schedules import DeclaredSchedule
from homing.ledger.ledger import Row
from homing.queue.schedules import HeldSchedule, Schedule
from homing.schema.statement import load

_HERE = "homing.scheduler"

DECLARE = load(_HERE, "declare")
ADOPT = load(_HERE, "adopt")
NOTE = load(_HERE, "note")
FORGET = load(_HERE, "forget")
HELD = load(_HERE, "held")
SCHEDULES = load(_HERE, "schedules")


def schedule_of(row: Row) -> Schedule:
    """The schedule that a row describes."""
    return Schedule(
        id=row["schedule"],
        job_name=row["job_name"],
        data=row["data"],
        options=row["options"],
        cron=row["cron"],
        zone=row["zone"],
        every_ms=row["every_ms"],
        start_ms=row["start_ms"],
        end_ms=row["end_ms"],
        limit=row["most_ticks"],
        immediate=row["immediate"],
    )


def past_of(row: Row) -> HeldSchedule | None:
    """How the engine held it when it was looked at last; `None` when nobody ever saw it there."""
    if row["next_ms"] is None:
        return None
    return HeldSchedule(
        schedule=schedule_of(row), next_ms=row["next_ms"], ticks=row["ticks"], offset_ms=row["offset_ms"]
    )


def ticks_run(row: Row, now_ms: int) -> int:
    """How many ticks have come due: the one that the engine held last counts once its time has come."""
    is_pending = row["next_ms"] is not None and row["next_ms"] > now_ms
    return int(row["ticks"]) - is_pending


def declared_columns(declared: Sequence[DeclaredSchedule]) -> dict[str, Any]:
    """What `declare.sql` takes."""
    schedules = [one.schedule for one in declared]
    return {
        "queues": [one.queue for one in declared],
        **_columns(schedules),
        "immediates": [schedule.immediate for schedule in schedules],
    }


def held_columns(held: Sequence[HeldSchedule]) -> dict[str, Any]:
    """What `adopt.sql` takes besides the queue. No text of PostgreSQL's holds a NUL, whoever wrote it."""
    return {**_columns([one.schedule for one in held]), **seen_columns(held)}


def seen_columns(held: Iterable[HeldSchedule]) -> dict[str, Any]:
    """What `note.sql` takes besides the queue and the names."""
    seen = list(held)
    return {
        "nexts": [one.next_ms for one in seen],
        "ticks": [one.ticks for one in seen],
        "offsets": [one.offset_ms for one in seen],
    }


def _columns(schedules: Sequence[Schedule]) -> dict[str, Any]:
    return {
        "schedules": [schedule.id for schedule in schedules],
        "job_names": [schedule.job_name for schedule in schedules],
        "datas": [schedule.data for schedule in schedules],
        "options": [schedule.options for schedule in schedules],
        "crons": [schedule.cron for schedule in schedules],
        "zones": [schedule.zone for schedule in schedules],
        "everys": [schedule.every_ms for schedule in schedules],
        "starts": [schedule.start_ms for schedule in schedules],
        "ends": [schedule.end_ms for schedule in schedules],
        "mosts": [schedule.limit for schedule in schedules],
    }
