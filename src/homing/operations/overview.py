"""What is going on, in one look: topics, consumers, queues and processes, with counts that never cost more than a bound."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from homing.ledger.ledger import Ledger, Row
from homing.ledger.statements import QUEUES
from homing.queue.browse import JobState, ListedJob, SteeredEngine
from homing.queue.job import JobCounts
from homing.schema.statement import load

_HERE = "homing.operations"
TOPICS = load(_HERE, "topics")
CONSUMERS = load(_HERE, "consumers")
PROCESSES = load(_HERE, "processes")

MOST = 100_000
"""Rows counted per topic, consumer and kind; a count that reaches it means "or more"."""

LATE_SECONDS = 60.0
"""How long after its time the look at a delivery is late: twice the longest rest of a sweep, and then some."""

ALIVE_SECONDS = 30.0
"""How long after its last heartbeat a process counts as alive: three beats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """What waits in the outbox under one topic."""

    topic: str
    claimable: int
    oldest_claimable_seconds: float
    scheduled: int
    parked: int
    routable: bool
    oldest_claimable_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerState:
    """What one consumer has to do. `subscribed`: whether new events still go to it."""

    consumer: str
    unsettled: int
    overdue: int
    oldest_unsettled_seconds: float
    open_letters: int
    subscribed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue as the engine shows it; `counts` is `None` when the engine did not answer.

    `throttled_seconds`: until its limit, or a pause that a handler asked for, lets the next job start.
    """

    queue: str
    counts: JobCounts | None
    paused: bool = False
    oldest_waiting_seconds: float = 0.0
    throttled_seconds: float = 0.0

    def states(self) -> list[tuple[str, int]]:
        """How many jobs are in each state; `paused` are those that would wait if the queue were not paused."""
        if self.counts is None:
            return []
        states = asdict(self.counts)
        waiting = states.pop("waiting")
        held = {"waiting": 0, "paused": waiting} if self.paused else {"waiting": waiting, "paused": 0}
        return [*held.items(), *states.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """A worker or relay that has shown itself lately; `routes`: whether it moves events to the queues."""

    id: str
    host: str
    pid: int
    version: str
    role: str
    routes: bool
    consumers: tuple[str, ...]
    queues: tuple[str, ...]
    started_at: datetime
    silent_seconds: float
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether its heartbeats still come."""
        return self.silent_seconds <= ALIVE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One look at everything. `engine_error`: why nothing is known of the queues, where the engine did not answer."""

    at: datetime
    topics: tuple[TopicState, ...]
    consumers: tuple[ConsumerState, ...]
    queues: tuple[QueueState, ...]
    processes: tuple[ProcessState, ...]
    engine_error: str | None = None


async def read_topics(ledger: Ledger) -> tuple[TopicState, ...]:
    """Every topic that has something unpublished."""
    rows = await ledger.fetch(TOPICS, most=MOST)
    return tuple(
        TopicState(
            topic=row["topic"],
            claimable=row["claimable"],
            oldest_claimable_seconds=row["oldest_claimable_seconds"],
            scheduled=row["scheduled"],
            parked=row["parked"],
            routable=row["routable"],
            oldest_claimable_at=row["oldest_claimable_at"],
        )
        for row in rows
    )


async def read_consumers(ledger: Ledger) -> tuple[ConsumerState, ...]:
    """Every consumer that is subscribed or has something left to do."""
    rows = await ledger.fetch(CONSUMERS, most=MOST, late_seconds=LATE_SECONDS)
    return tuple(
        ConsumerState(
            consumer=row["consumer"],
            unsettled=row["unsettled"],
            overdue=row["overdue"],
            oldest_unsettled_seconds=row["oldest_unsettled_seconds"],
            open_letters=row["open_letters"],
            subscribed=row["subscribed"],
        )
        for row in rows
    )


async def read_processes(ledger: Ledger, since_seconds: float = 3600.0) -> tuple[ProcessState, ...]:
    """Workers and relays that showed themselves within `since_seconds`, the newest first."""
    return tuple(_process(row) for row in await ledger.fetch(PROCESSES, since_seconds=since_seconds))


async def read_queue_names(ledger: Ledger) -> Sequence[Row]:
    """The registered queues, with what the ledger wants the engine to hold for them."""
    return await ledger.fetch(QUEUES)


def _process(row: Row) -> ProcessState:
    return ProcessState(
        id=str(row["id"]),
        host=row["host"],
        pid=row["pid"],
        version=row["version"],
        role=row["role"],
        routes=row["routes"],
        consumers=tuple(row["consumers"]),
        queues=tuple(row["queues"]),
        started_at=row["started_at"],
        silent_seconds=row["silent_seconds"],
        state=json.loads(row["state"]),
    )


async def read_queues(engine: SteeredEngine, names: Sequence[str]) -> tuple[QueueState, ...]:
    """Every queue as the engine shows it, all asked at once; an engine that does not answer raises `ServerUnavailable`."""
    return tuple(await asyncio.gather(*(_queue(engine, name) for name in names)))


async def _queue(engine: SteeredEngine, name: str) -> QueueState:
    counts, terms, *pages = await asyncio.gather(
        engine.counts(name),
        engine.terms(name),
        engine.browse(name, JobState.WAITING, most=1),
        engine.browse(name, JobState.PRIORITIZED, most=1),
    )
    now = datetime.now(UTC)
    return QueueState(
        queue=name,
        counts=counts,
        paused=terms.paused,
        throttled_seconds=terms.throttled_seconds,
        oldest_waiting_seconds=max((waited_seconds(job, now) for page in pages for job in page.jobs), default=0.0),
    )


def waited_seconds(job: ListedJob, now: datetime) -> float:
    """How long a job has been next in line at the most: since it was added, or since its last run began."""
    moments = [moment for moment in (job.added_at, job.started_at) if moment is not None]
    return max(0.0, (now - max(moments)).total_seconds()) if moments else 0.0
