"""An app with one delivery of each fate, for tests that take back the past of a server, and what can be seen of it."""

import os
from collections import Counter
from typing import Any
from uuid import UUID

from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, RetryLater, Transaction
from homing.config.settings import Settings
from homing.durations import hours, milliseconds
from homing.ids import DeliveryKey, JobId
from tests.system import System, quick, with_sessions
from tests.waiting import until

QUEUE = "work"
ONCE, LEAST = f"{QUEUE}.once", f"{QUEUE}.least"
ADD_EFFECT = text("INSERT INTO effects VALUES (:event_id)")


class AskedOnce(Event, topic="history.once", unrouted=True):
    """Handled in a transaction. `fate`: done, dead, or later (which postpones itself)."""

    fate: str = "done"


class AskedLeast(Event, topic="history.least", unrouted=True):
    """Handled without one."""

    fate: str = "done"


class Story:
    """The runs that happened so far, and whether those that wait may end."""

    def __init__(self) -> None:
        self.runs: Counter[UUID] = Counter()
        self.later_is_now = False

    def tell(self, event: AskedOnce | AskedLeast) -> str:
        self.runs[event.event_id] += 1
        if event.fate == "dead":
            raise PermanentError("this one dies")
        if event.fate == "later" and not self.later_is_now:
            raise RetryLater(hours(1))
        return f"run {self.runs[event.event_id]}"


def app_of(story: Story, settings: Settings) -> Homing:
    app = Homing("history")
    queue = app.queue(QUEUE)

    @queue.handler("once", on=AskedOnce)
    async def once(event: AskedOnce, tx: Transaction[AsyncSession]) -> str:
        await tx.execute(ADD_EFFECT, {"event_id": event.event_id})
        return story.tell(event)

    @queue.handler("least", on=AskedLeast, at_least_once=True)
    async def least(event: AskedLeast) -> str:
        return story.tell(event)

    return with_sessions(app, settings)


def short(settings: Settings) -> Settings:
    """Times so short that what a restored lease still holds is soon over."""
    return quick(
        settings,
        lease=milliseconds(600),
        beat=milliseconds(150),
        rescue=milliseconds(100),
        relay_poll=milliseconds(50),
    )


def job_id(event: Event, generation: int = 1) -> JobId:
    consumer = ONCE if isinstance(event, AskedOnce) else LEAST
    return DeliveryKey(event.event_id, consumer, generation).job_id


async def effects(system: System) -> dict[UUID, int]:
    """How many committed effects each event has."""
    rows = await system.sql.fetch("SELECT event_id, count(*) AS times FROM effects GROUP BY event_id")
    return {row["event_id"]: row["times"] for row in rows}


async def facts(system: System) -> list[dict[str, Any]]:
    """What may never change again: the settled deliveries and the letters."""
    rows = await system.sql.fetch(
        "SELECT d.event_id, d.consumer, d.generation, d.outcome, d.settled_at, d.result, l.id AS letter, l.closed_as"
        " FROM homing.deliveries d LEFT JOIN homing.dead_letters l USING (event_id, consumer, generation)"
        " WHERE d.settled_at IS NOT NULL ORDER BY d.event_id, d.consumer, l.id"
    )
    return [dict(row) for row in rows]


async def take_over(system: System) -> None:
    """Take the right to sweep from the relay of the test's earlier lives, which has ended: it would run out in ten seconds."""
    await system.sql.execute("UPDATE homing.queues SET sweeper_until = now()")


async def came_to_rest(system: System, *, unsettled: int) -> None:
    """Wait until nothing waits or runs, and what is unsettled was looked at in the current epoch and has its job."""

    async def at_rest() -> bool:
        counts = await system.engine.counts(QUEUE)
        if counts.waiting or counts.active or counts.delayed != unsettled:
            return False
        return not await system.sql.fetchval(
            "SELECT (SELECT count(*) FROM homing.deliveries d JOIN homing.queues q USING (queue)"
            " WHERE d.settled_at IS NULL AND d.epoch < q.epoch)"
            " + (SELECT count(*) FROM homing.outbox_events WHERE published_at IS NULL)"
        )

    await until(at_rest, 20, "the system came to rest")


def finished_marks(server_url: str, prefix: str) -> dict[str, str | None]:
    """The mark of every finished job."""
    found: dict[str, str | None] = {}
    with Redis.from_url(server_url, decode_responses=True) as client:
        for state in ("completed", "failed"):
            for job in client.zrange(f"{prefix}:{QUEUE}:{state}", 0, -1):
                found[str(job)] = client.hget(f"{prefix}:{QUEUE}:{job}", "homing")
    return found


def number_from_environment(name: str, otherwise: int) -> int:
    """How thorough a test is: more where somebody asks for it."""
    return int(os.environ.get(name, otherwise))
