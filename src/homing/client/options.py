"""What may be said of one job that is enqueued directly, and everything about it that is checked before Redis is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict
from uuid import UUID

from homing.config.sources import did_you_mean
from homing.errors import EnqueueError
from homing.ids import JobId
from homing.queue.job import Deduplication


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Jobs of a queue with the same `id` count as one: while one of them counts, enqueueing another names it and adds nothing.

    A job counts until it has ended; with a `ttl` for so long after it was added, whatever became of it. `extend`: each further one lets the
    `ttl` begin anew. `replace`: a job that is still delayed makes way for the new one. `keep_last_if_active`: the last one that came while
    the first ran is added when that ends. As durable as Redis: what must never happen twice says so in its handler.
    """

    id: str
    ttl: timedelta | None = None
    extend: bool = False
    replace: bool = False
    keep_last_if_active: bool = False

    def rule(self) -> Deduplication:
        """The same for the engine."""
        return Deduplication(
            id=self.id,
            ttl_seconds=None if self.ttl is None else self.ttl.total_seconds(),
            extend=self.extend,
            replace=self.replace,
            keep_last_if_active=self.keep_last_if_active,
        )


class EnqueueOptions(TypedDict, total=False):
    """The options of one job. Attempts, backoff and keeping are its handler's or its queue's: they are the same for all jobs of a kind."""

    id: str | UUID
    """The job's own name: enqueueing it twice is enqueueing it once, while the engine keeps the job. Text, no integer, no colon."""
    delay: timedelta
    """Run it no earlier than so long from now."""
    priority: int
    """1 is claimed first, 2,097,151 last; jobs without one come before all of them."""
    lifo: bool
    """Claim it before all that wait already."""
    deduplicate: Deduplicate
    """Add it only if no other job of the same id counts."""
    elsewhere: bool
    """Its worker is not one of ours: the name is not looked for among the handlers of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The options of one job, checked."""

    id: JobId | None = None
    delay_seconds: float = 0.0
    priority: int = 0
    lifo: bool = False
    deduplication: Deduplication | None = None
    elsewhere: bool = False


def read_options(options: Mapping[str, Any]) -> Terms:
    """Check names and types; an `EnqueueError` names the first that is wrong. What an engine refuses it says itself."""
    known = EnqueueOptions.__annotations__
    for name in options:
        if name not in known:
            raise EnqueueError(f"enqueue knows no option {name!r}{did_you_mean(name, known)}")
    job_id, same = options.get("id"), _typed(options, "deduplicate", Deduplicate, None)
    return Terms(
        id=None if job_id is None else _job_id(job_id),
        delay_seconds=_typed(options, "delay", timedelta, timedelta(0)).total_seconds(),
        priority=_typed(options, "priority", int, 0),
        lifo=_typed(options, "lifo", bool, False),
        deduplication=None if same is None else same.rule(),
        elsewhere=_typed(options, "elsewhere", bool, False),
    )


_REMEDIES = {
    "deduplicate": 'as in Deduplicate("order-7", ttl=seconds(5))',
    "delay": "as in delay=seconds(30)",
    "priority": "as in priority=10",
}


def _typed(options: Mapping[str, Any], name: str, kind: type, otherwise: Any) -> Any:
    value = options.get(name, otherwise)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return otherwise if value is None else value
    raise EnqueueError(f"{name}={value!r} is no {kind.__name__}: {_REMEDIES.get(name, 'say True or False')}")


def _job_id(given: object) -> JobId:
    if not isinstance(given, str | UUID):
        raise EnqueueError(
            f"id={given!r} is {type(given).__name__}, and BullMQ counts integers itself: give text, as in id='report-{given}'"
        )
    return JobId(str(given))
