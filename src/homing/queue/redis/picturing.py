"""Job hashes read for people. Any producer may have written them: nothing strange is an error, it is shown or left out. Pure."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from homing.ids import JobId
from homing.queue.browse import JobState, ListedJob, ShownJob, moment
from homing.queue.redis.encoding import MARK_FIELD

LISTED_FIELDS = ("name", "timestamp", "processedOn", "finishedOn", "atm", "priority", "failedReason")
"""What a list asks of each job: no data, however long that is."""

MOST_REASON = 1_000
_SCORE_OF_MS = 0x1000


def whole_number(value: object) -> int:
    """A number as Redis has it; 0 for none, and for what is no number."""
    try:
        return 0 if value is None else int(float(value))  # type: ignore[arg-type]  # what it cannot read, it says
    except (TypeError, ValueError, OverflowError):
        return 0


def due_ms(state: JobState | None, score: object) -> float | None:
    """When a delayed job is due, from its score: the time in ms, and twelve bits of order."""
    return whole_number(score) / _SCORE_OF_MS if state is JobState.DELAYED and score is not None else None


def picture_listed(
    job_id: JobId, state: JobState | None, values: Sequence[bytes | None], *, due: float | None = None
) -> ListedJob:
    """A job of a list, from its fields in the order of `LISTED_FIELDS`."""
    fields = {
        name: value.decode(errors="replace")
        for name, value in zip(LISTED_FIELDS, values, strict=True)
        if value is not None
    }
    return ListedJob(id=job_id, state=state, due_at=moment(due), **_listed(fields))


def picture_shown(
    job_id: JobId,
    state: JobState | None,
    flat: Sequence[bytes],
    *,
    score: float | None,
    ahead: int | None,
    lease_ms: int,
    log_lines: int,
    logs: Sequence[bytes],
) -> ShownJob:
    """One job in full, from its hash as Redis answers it, fields and values in turn."""
    words = [word.decode(errors="replace") for word in flat]
    fields = dict(zip(words[::2], words[1::2], strict=False))
    return ShownJob(
        id=job_id,
        state=state,
        due_at=moment(due_ms(state, score)),
        fields=fields,
        attempts=_attempts(fields.get("opts")),
        starts=whole_number(fields.get("ats")),
        stalls=whole_number(fields.get("stc")),
        ahead=ahead,
        worker=fields.get("pb", ""),
        lease_seconds=lease_ms / 1000 if lease_ms >= 0 else None,
        mark=fields.get(MARK_FIELD),
        stacks=_stacks(fields.get("stacktrace")),
        logs=tuple(line.decode(errors="replace") for line in logs),
        log_lines=log_lines,
        **_listed(fields),
    )


def _listed(fields: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": fields.get("name"),
        "added_at": _time(fields, "timestamp"),
        "started_at": _time(fields, "processedOn"),
        "finished_at": _time(fields, "finishedOn"),
        "attempts_made": whole_number(fields.get("atm")),
        "priority": whole_number(fields.get("priority")),
        "reason": fields.get("failedReason", "")[:MOST_REASON],
    }


def _time(fields: Mapping[str, str], name: str) -> datetime | None:
    return moment(whole_number(fields.get(name)))


def _attempts(options: str | None) -> int:
    try:
        return max(1, int(json.loads(options or "{}")["attempts"]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 1


def _stacks(stored: str | None) -> tuple[str, ...]:
    """BullMQ keeps a list, the last run's at its end; text that is no list is one stack."""
    if not stored:
        return ()
    try:
        stacks: Any = json.loads(stored)
    except (ValueError, RecursionError):
        return (stored,)
    return tuple(stack for stack in stacks if isinstance(stack, str)) if isinstance(stacks, list) else ()
