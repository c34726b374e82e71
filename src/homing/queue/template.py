"""Terms of jobs in the words of BullMQ's own options: what a job's hash carries, and what a schedule keeps for the jobs that it will make."""

import json
import math
from typing import Any

from homing.backoff import Backoff
from homing.queue.job import KeepRule


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, rounded up: nothing runs early."""
    return math.ceil(round(seconds * 1000, 6))


def template_options(
    *, attempts: int, backoff: Backoff | None, keep_completed: KeepRule, keep_failed: KeepRule, priority: int = 0
) -> str:
    """The options that a schedule keeps for its jobs, as JSON text."""
    options: dict[str, Any] = {
        "attempts": attempts,
        "removeOnComplete": keep_option(keep_completed),
        "removeOnFail": keep_option(keep_failed),
    }
    if backoff is not None:
        options["backoff"] = backoff_option(backoff)
    if priority:
        options["priority"] = priority
    return json.dumps(options, sort_keys=True)


def keep_option(rule: KeepRule) -> bool | dict[str, float]:
    """`removeOnComplete` or `removeOnFail` as Node reads it: `false` keeps for ever, `true` removes at once."""
    if rule.count == 0:
        return True
    return keep_numbers(rule) or False


def keep_numbers(rule: KeepRule) -> dict[str, float]:
    """The bounds of a keep rule, where it has some."""
    numbers: dict[str, float] = {}
    if rule.age_seconds is not None:
        numbers["age"] = int(rule.age_seconds) if rule.age_seconds == int(rule.age_seconds) else rule.age_seconds
    if rule.count is not None:
        numbers["count"] = rule.count
    return numbers


def backoff_option(backoff: Backoff) -> dict[str, Any]:
    """The backoff as BullMQ shows it. A capped one gets a type of its own: Node knows none with a ceiling, and a Node
    worker that shares the queue must supply that strategy instead of retrying ever later.
    """  # noqa: D205 - one thought
    option: dict[str, Any] = {"type": backoff.kind, "delay": milliseconds(backoff.delay_seconds)}
    if backoff.jitter:
        option["jitter"] = backoff.jitter
    if backoff.cap_seconds is not None:
        option |= {"type": "capped", "cap": milliseconds(backoff.cap_seconds)}
    return option
