"""What two stories have in common, and the differences that are meant."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.interop.player import Moment
from tests.queue_keys import QueueKeys, differences

_CLAIMABLE = ("wait", "prioritized", "delayed")


def unexplained(ours: Sequence[Moment], theirs: Sequence[Moment]) -> list[str]:
    """Where the stories differ without a reason that is written down here."""
    return [line for one, other in zip(ours, theirs, strict=True) for line in _of_moment(one, other)]


def by_job(story: Sequence[Moment]) -> list[Moment]:
    """The story with the events of each job in order, whosever come first, and without the tokens of leases."""
    return [replace(moment, keys={queue: _by_job(keys) for queue, keys in moment.keys.items()}) for moment in story]


def _by_job(keys: QueueKeys) -> QueueKeys:
    events = sorted(keys.get("events", []), key=lambda event: str(event.get("jobId", "")))
    locks = {name: {**lock, "content": "a token"} for name, lock in keys.items() if name.endswith(":lock")}
    return {**keys, **locks, "events": events}


def _of_moment(ours: Moment, theirs: Moment) -> list[str]:
    answers = differences(ours.answer, theirs.answer, "answer")
    keys = [
        line for queue in ours.keys for line in differences(_plain(ours.keys[queue]), _plain(theirs.keys[queue]), queue)
    ]
    return [f"{ours.call} → {line}" for line in answers + keys]


def _plain(keys: QueueKeys) -> QueueKeys:
    """The keys without what each says in its own way."""
    plain = {name: _plain_job(content) if _is_job(content) else content for name, content in keys.items()}
    plain["events"] = _plain_events(keys.get("events", []))
    if not any(name in keys for name in _CLAIMABLE):
        plain.pop("marker", None)  # BullMQ wakes a worker after each claim, ours where something is left to claim
    return plain


def _is_job(content: Any) -> bool:
    return isinstance(content, dict) and "opts" in content


def _plain_job(fields: dict[str, Any]) -> dict[str, Any]:
    """BullMQ repeats id and time of a job in its options, and keeps the stacks of all runs; ours keeps the last one's.

    Ours says the time of a tick also where an interval made it.
    """
    repeated = {"jobId", "timestamp"} | ({"prevMillis"} if "every" in fields["opts"].get("repeat", {}) else set())
    options = {name: value for name, value in fields["opts"].items() if name not in repeated}
    stacks = json.loads(fields.get("stacktrace", "[]"))[-1:]
    return fields | {"opts": options, "stacktrace": stacks}


def _plain_events(events: list[dict[str, str]]) -> list[dict[str, str]]:
    """Ours cleans and drains in pages, and each tells of itself; BullMQ pauses a queue once more before it obliterates it."""
    return [event for at, event in enumerate(events) if event["event"] != "cleaned" and event != _before(events, at)]


def _before(events: list[dict[str, str]], at: int) -> dict[str, str] | None:
    return events[at - 1] if at and events[at] == {"event": "paused"} else None
