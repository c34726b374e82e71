"""The membership audit: whether jobs that have lived for long are in any list at all, from which somebody would ever claim them."""

import logging
from collections.abc import Collection, Sequence

from homing.clock import Clock
from homing.ids import JobId
from homing.queue.port import Engine

log = logging.getLogger("homing.relay")

OLD_SECONDS = 86_400.0
"""From this age on a living job is suspected of being in no list."""

SHARE = 0.01
"""How much of the time a queue may be listed: an audit that took a second is followed by a hundred without one."""


class Audit:
    """Lists queues, seldom: it costs the engine as much as the queue is long, and holds a page of ids and a page of the list."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._next: dict[str, float] = {}

    async def adrift(self, queue: str, ids: Collection[JobId]) -> set[JobId]:
        """Those of `ids` that are in no list; none while the queue rests from its last audit.

        A job that moves from one list to another may escape one reading, so that only two readings convict, and one that ended meanwhile
        is acquitted; what is convicted wrongly all the same is merely added again.
        """
        began = self._clock.monotonic()
        if not ids or began < self._next.get(queue, began):
            return set()
        missing = set(ids)
        for _ in range(2):
            missing -= await self._engine.listed(queue, missing) if missing else set()
        missing -= await self._ended(queue, sorted(missing))
        ended = self._clock.monotonic()
        self._next[queue] = ended + (ended - began) / SHARE
        return missing

    async def _ended(self, queue: str, ids: Sequence[JobId]) -> set[JobId]:
        traces = await self._engine.inspect(queue, ids)
        return {job_id for job_id, trace in zip(ids, traces, strict=True) if trace.finished or trace.name is None}
