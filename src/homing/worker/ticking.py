"""Ticks of schedules: whoever claims one makes the next one first, as every worker of a queue does, Node's too."""

import logging
from collections.abc import Collection
from dataclasses import replace

from homing.errors import ServerUnavailable
from homing.events.envelope import foreign_id
from homing.metrics import Metrics, declared
from homing.queue.job import ClaimedJob
from homing.queue.schedules import Advanced, Scheduling, TickId, moment_of, read_tick, tick_data

log = logging.getLogger("homing.worker")


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
            log.warning(
                "schedule %s: %d ticks were missed since %s", tick.schedule, advanced.missed, moment_of(tick.due_ms)
            )
        if tick.schedule in self._known:
            self._metrics.set(declared.SCHEDULE_FIRED, tick.schedule, to=tick.due_ms / 1000)
            self._metrics.count(declared.SCHEDULE_MISSED, tick.schedule, by=advanced.missed)


def with_due_time(job: ClaimedJob, tick: TickId) -> ClaimedJob:
    """The job with its schedule's name and its time in the data; data that say nothing of the kind stay, for its handler to refuse."""
    event_id = foreign_id(job.lease.queue, job.lease.job_id, 0)
    data = tick_data(job.data, tick.schedule, tick.due_ms, str(event_id))
    return job if data is None else replace(job, data=data, timestamp_ms=tick.due_ms)
