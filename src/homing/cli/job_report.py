"""Jobs, answers and reasons as they are printed: JSON for programs, and text without what a terminal would obey."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Any

from homing.cli.exits import Exit
from homing.cli.flow_report import show_tree, tree_fields
from homing.cli.output import show_json, show_list, show_text
from homing.harmless import clean, clean_line
from homing.operations.explain import Reason
from homing.operations.explaining import Explained
from homing.operations.flows import FlowNode
from homing.operations.jobs import Acted, Answer, JobList, PlacedJob
from homing.queue.browse import ListedJob, ShownJob

LONGEST_ID = 300
_LONGEST_NAME = 60
_LONGEST_TEXT = 10_000

_FIELDS_SHOWN = ("data", "opts", "returnvalue", "progress")


def show_jobs(found: JobList, *, as_json: bool) -> None:
    """A page of jobs, and how to come to the next."""
    if as_json:
        show_json({"jobs": [_listed(placed) for placed in found.jobs], "after": found.after})
        return
    rows = [
        (
            clean_line(placed.queue, _LONGEST_NAME),
            placed.job.state.value if placed.job.state else "nowhere",
            clean_line(placed.job.id, LONGEST_ID),
            clean_line(placed.job.name or "(its data is lost)", _LONGEST_NAME),
            _when(placed.job),
            str(placed.job.attempts_made),
            clean_line(placed.job.reason),
        )
        for placed in found.jobs
    ]
    show_list(("queue", "state", "id", "name", "at", "attempts", "last error"), rows)
    if found.after is not None:
        show_text(f"more: --after {quote(clean_line(found.after, LONGEST_ID))}")


def show_one(queue: str, job: ShownJob, tree: FlowNode | None, *, as_json: bool) -> None:
    """Everything of one job, and the tree that it is in."""
    if as_json:
        show_json({**_shown(queue, job), "flow": None if tree is None else tree_fields(tree)})
        return
    for name, value in _shown(queue, job).items():
        if name not in ("fields", "logs", "stacks") and value not in (None, ""):
            show_text(f"{name.replace('_', ' '):<14} {clean(_text(value), _LONGEST_TEXT)}")
    for name, value in job.fields.items():
        if name in _FIELDS_SHOWN:
            _block(clean_line(name), _pretty(value))
    for stack in job.stacks[-1:]:
        _block("stack of the last failure", stack)
    if job.logs:
        _block(f"logs, the last of {job.log_lines}", "\n".join(job.logs))
    if tree is not None:
        show_tree(tree)


def show_explained(found: Sequence[Explained], *, as_json: bool) -> None:
    """Each thing that was asked about, with its reasons and what to do."""
    if as_json:
        show_json([{"job": each.job_id, "reasons": [_reason(reason) for reason in each.reasons]} for each in found])
        return
    for each in found:
        show_text(clean_line(each.job_id, LONGEST_ID))
        for reason in each.reasons:
            since = f" (since {_text(reason.since)})" if reason.since else ""
            show_text(f"  {reason.because.value}: {clean_line(reason.text, _LONGEST_TEXT)}{since}")
            show_text(f"    → {clean_line(reason.remedy, _LONGEST_TEXT)}")


def show_acted(acted: Sequence[Acted], *, as_json: bool) -> None:
    """An answer for each id; many of a kind are counted."""
    if as_json:
        show_json([{"job": each.job_id, "queue": each.queue, "answer": each.answer.name.lower()} for each in acted])
        return
    counted = Counter(each.answer for each in acted)
    for answer, number in counted.items():
        ids = [clean_line(each.job_id, LONGEST_ID) for each in acted if each.answer is answer]
        show_text(f"{number} {answer.value}" if number > 20 else f"{', '.join(ids)}: {answer.value}")


def exit_of(acted: Sequence[Acted]) -> Exit | None:
    """The code for a list of answers: unknown ids before those that were left as they are; `None` when all is done."""
    if any(each.answer is Answer.UNKNOWN for each in acted):
        return Exit.NO_SUCH_ID
    return None if all(each.answer.is_done for each in acted) else Exit.REFUSED


def _listed(placed: PlacedJob) -> Mapping[str, object]:
    return {"queue": placed.queue, **_common(placed.job)}


def _shown(queue: str, job: ShownJob) -> Mapping[str, Any]:
    return {
        "queue": queue,
        **_common(job),
        "attempts": job.attempts,
        "starts": job.starts,
        "stalls": job.stalls,
        "ahead": job.ahead,
        "worker": job.worker,
        "lease_seconds": job.lease_seconds,
        "mark": job.mark,
        "fields": dict(job.fields),
        "stacks": list(job.stacks),
        "log_lines": job.log_lines,
        "logs": list(job.logs),
    }


def _common(job: ListedJob) -> Mapping[str, object]:
    return {
        "id": job.id,
        "state": job.state.value if job.state else None,
        "name": job.name,
        "added_at": job.added_at,
        "due_at": job.due_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "attempts_made": job.attempts_made,
        "priority": job.priority,
        "reason": job.reason,
    }


def _reason(reason: Reason) -> Mapping[str, object]:
    return {
        "reason": reason.because.name.lower(),
        "text": reason.text,
        "remedy": reason.remedy,
        "since": reason.since,
        "until": reason.until,
    }


def _when(job: ListedJob) -> str:
    """The time that says most: of a delayed job when it is due, else the latest thing that happened."""
    moment = job.due_at or job.finished_at or job.started_at or job.added_at
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _block(name: str, text: str) -> None:
    show_text(f"\n{name}")
    show_text(clean(text.rstrip(), _LONGEST_TEXT))


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _text(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else str(value)
