"""Jobs that wait for children are looked at: none waits for a child that will never end, and none past its deadline."""

import logging
from collections.abc import Mapping, Sequence
from uuid import UUID

from homing.errors import HomingError, ServerUnavailable
from homing.ids import DeliveryKey, JobId
from homing.ledger.ledger import Ledger, Row
from homing.ledger.statements import SWEEP
from homing.queue.port import Engine
from homing.relay.jobs import deadline_seconds
from homing.relay.letters import key_of
from homing.relay.sweep import SWEEPER_SECONDS
from homing.relay.watch import QueueWatch
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.relay")

WAITING_PARENTS = load("homing.relay", "waiting_parents")
OWN_DEADLINES = load("homing.relay", "own_deadlines")

PAGE = 100
PAGES = 10
"""Pages of one queue that are looked at in one turn; the next turn goes on behind them."""

SHORTEST_SECONDS = 1.0
"""A job that has waited for less is not asked about: most have."""


class Families:
    """Reviews the waiting parents of every verified queue, under the lease of that queue's sweep.

    What the engine lost without telling the parent, or what ended while nobody counted, stops counting. A delivery past its deadline, or
    settled already, is let go on: it is claimed, and its row decides. A job that no relay made waits no longer than a delivery would.
    """

    def __init__(
        self, ledger: Ledger, engine: Engine, watch: QueueWatch, *, sweeper: UUID, deadline_seconds: float
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._watch = watch
        self._sweeper = sweeper
        self._deadline_seconds = deadline_seconds
        self._after: dict[str, str] = {}

    async def tick(self) -> Progress:
        """Look at some pages of every queue that this process sweeps; a queue that cannot be asked now waits for the next turn."""
        for queue in list(self._watch.epochs):
            lease = await self._ledger.fetch(SWEEP, queue=queue, sweeper=self._sweeper, lease_seconds=SWEEPER_SECONDS)
            if lease:
                await self._review_safely(queue)
        return Progress.REST

    async def _review_safely(self, queue: str) -> None:
        try:
            await self._review(queue)
        except ServerUnavailable:
            raise
        except HomingError:
            log.exception("queue %s: what its jobs wait for cannot be looked at", queue)

    async def _review(self, queue: str) -> None:
        for _ in range(PAGES):
            found = await self._engine.review_parents(queue, after=self._after.pop(queue, None), most=PAGE)
            for job_id in found.released:
                log.warning(
                    "job %s of queue %s goes on: what it waited for was lost, or ended unnoticed", job_id, queue
                )
            await self._end(queue, found.waiting)
            if found.after is None:
                return
            self._after[queue] = found.after

    async def _end(self, queue: str, waiting: Mapping[JobId, float]) -> None:
        await self._end_deliveries(queue, list(waiting))
        others = {job_id: seconds for job_id, seconds in waiting.items() if DeliveryKey.parse(job_id) is None}
        long = {job_id: seconds for job_id, seconds in others.items() if seconds >= SHORTEST_SECONDS}
        if long:
            await self._end_others(queue, long)

    async def _end_others(self, queue: str, waiting: Mapping[JobId, float]) -> None:
        """Jobs that no relay made, of handlers of ours: they may wait as long as a delivery of the same handler, and die as its children did."""
        ids = list(waiting)
        names = {job_id: trace.name for job_id, trace in zip(ids, await self._engine.inspect(queue, ids), strict=True)}
        rows = await self._ledger.fetch(OWN_DEADLINES, queue=queue, job_names=[name for name in names.values() if name])
        deadlines = {row["job_name"]: deadline_seconds(row, self._deadline_seconds) for row in rows}
        for job_id, seconds in waiting.items():
            most = deadlines.get(names[job_id] or "")
            if (
                most is not None
                and seconds >= most
                and await self._engine.release_parent(queue, job_id, as_bereft=True)
            ):
                log.error(
                    "job %s of queue %s has waited for its children for %.0f s, and dies of it", job_id, queue, seconds
                )

    async def _end_deliveries(self, queue: str, ids: Sequence[JobId]) -> None:
        keys = [key for job_id in ids if (key := DeliveryKey.parse(job_id)) is not None]
        if not keys:
            return
        rows = await self._ledger.fetch(
            WAITING_PARENTS,
            event_ids=[key.event_id for key in keys],
            consumers=[key.consumer for key in keys],
            generations=[key.generation for key in keys],
        )
        for row in rows:
            if self._is_over(row) and await self._engine.release_parent(queue, key_of(row).job_id):
                log.warning("job %s of queue %s waits for its children no longer", key_of(row).job_id, queue)

    def _is_over(self, row: Row) -> bool:
        age_seconds = (row["now"] - row["opened_at"]).total_seconds()
        return bool(row["settled"]) or age_seconds >= deadline_seconds(row, self._deadline_seconds)
