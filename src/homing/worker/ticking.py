"""Ticks of schedules: whoever claims one makes the next one first, as every worker of a queue does, Node's too."""

import json
import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from homing.errors import ServerUnavailable
from homing.events.codec import dump_json
from homing.events.envelope import foreign_id
from homing.metrics import Metrics, declared
from homing.queue.job import ClaimedJob
from homing.queue.schedules import Advanced, Scheduling, TickId, read_tick

log = logging.getLogger("homing.worker")

_LAST_MS = 253_402_300_799_000  # 9999-12-31T23:59:59Z


class Ticker:
    """Lets schedules go on. `known`: those whose names may be labels of metrics, since the code bounds them."""

    def __init__(self, engine: Scheduling, metrics: Metrics, known: Collection[str]) -> None:
        self._engine = engine
        self._metrics = metrics
        self._known = frozenset(known)

    async def follow(self, job: ClaimedJob) -> ClaimedJob:
        """Make the tick after this one, and say in the job's data for which time it runs; every other job stays as it is.

        It is asked before each run of a tick, and does nothing the second time: a worker that dies in between leaves it to the next one.
        Where it fails, the look at the schedules finds the chain broken, and mends it.
        """
        tick = read_tick(job.lease.job_id)
        if tick is None:
            return job
        try:
            advanced = await self._engine.advance(job.lease.queue, tick)
        except ServerUnavailable as error:
            log.warning("schedule %s: its next tick is not made yet, the look makes it: %s", tick.schedule, error)
        except Exception as error:  # noqa: BLE001 - a pattern that only its maker can read, a record that is none: the tick itself runs
            log.error("schedule %s has no next tick from this worker: %s", tick.schedule, error)  # noqa: TRY400 - the text says all
        else:
            self._count(tick, advanced)
        return with_due_time(job, tick)

    def _count(self, tick: TickId, advanced: Advanced | None) -> None:
        if advanced is None:
            return
        if advanced.missed:
            log.warning("schedule %s: %d ticks were missed since %s", tick.schedule, advanced.missed, due_at(tick))
        if tick.schedule in self._known:
            self._metrics.set(declared.SCHEDULE_FIRED, tick.schedule, to=tick.due_ms / 1000)
            self._metrics.count(declared.SCHEDULE_MISSED, tick.schedule, by=advanced.missed)


def due_at(tick: TickId) -> datetime:
    """The time for which a tick runs."""
    return datetime.fromtimestamp(min(tick.due_ms, _LAST_MS) / 1000, UTC)


def with_due_time(job: ClaimedJob, tick: TickId) -> ClaimedJob:
    """The job with its schedule's name and the time of its tick in the payload, where that does not say something else already.

    All ticks of a schedule carry the same data; what is known of one lies in its id. What Node's tools gave a schedule as data is the payload.
    Data that is no JSON object stays as it is, for its handler to refuse.
    """
    data = _object(job.data)
    if data is None:
        return job
    event_id = str(foreign_id(job.lease.queue, job.lease.job_id, 0))
    if not isinstance(data.get("payload"), dict):
        data = {"payload": data}
    payload = {"schedule": tick.schedule, "dueAt": due_at(tick).isoformat()} | data["payload"]
    data = {"eventId": event_id} | data | {"payload": payload}
    return replace(job, data=dump_json(data), timestamp_ms=tick.due_ms)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
