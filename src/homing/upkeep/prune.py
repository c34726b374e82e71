"""Pruning: events leave together with their deliveries, in small batches, and never while something still needs them."""

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import UUID

from homing.clock import Clock, SystemClock
from homing.config.settings import Retention
from homing.durations import describe_seconds
from homing.ids import first_id_at
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics, declared
from homing.service import Progress
from homing.upkeep.batches import open_batch
from homing.upkeep.pruned import Pruned
from homing.upkeep.walks import Events, Jobs, Letters, Walk, Workers

log = logging.getLogger("homing.upkeep")

PAGE = 500
"""The most rows that one transaction locks."""


class Prune:
    """One `tick` takes one batch of each walk; a round ends with `REST`, and the next one starts from the beginning.

    `pruned` counts since the start. `outliving` says, by queue, what is wrong once jobs of other producers are forgotten there that the
    engine still keeps; each is told once. With `dry_run` every batch is rolled back, so that its counts say what would leave. Batches are
    transactions of ours: after a crash the next round goes on with what is left.
    """

    def __init__(
        self,
        ledger: Ledger,
        retention: Retention,
        *,
        page: int = PAGE,
        dry_run: bool = False,
        outliving: Mapping[str, str] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._retention = retention
        self._page = page
        self._dry_run = dry_run
        self._outliving = dict(outliving or {})
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._walks: tuple[Walk, ...] = (Events(self._before), Jobs(self._tell_outliving), Letters(), Workers())
        self._left: tuple[Walk, ...] = self._walks
        self.pruned = Pruned()

    async def tick(self) -> Progress:
        """Take a batch of every walk that has not come to its end in this round."""
        left: list[Walk] = []
        for walk in self._left:
            async with open_batch(self._ledger, dry_run=self._dry_run) as transaction:
                pruned, more = await walk.step(transaction, self._retention, self._page)
            self._count(pruned)
            if more:
                left.append(walk)
        self._left = tuple(left) or self._walks
        return Progress.AGAIN if left else Progress.REST

    def _before(self) -> UUID:
        now = self._clock.now() + timedelta(seconds=self._ledger.clock_offset_seconds)
        return first_id_at(now - self._retention.events)

    def _tell_outliving(self, queues: Iterable[str]) -> None:
        for queue in queues:
            warning = self._outliving.pop(queue, None)
            if warning is not None:
                log.warning("%s", warning)

    def _count(self, pruned: Pruned) -> None:
        self.pruned += pruned
        if self._dry_run or not pruned.rows:
            return
        log.info("pruned %s", pruned)
        if self._metrics is not None:
            for table, rows in pruned.by_table.items():
                self._metrics.count(declared.PRUNED, table, by=rows)
        if pruned.lost:
            log.warning(
                "%d dead letters were open for %s and left with their events: nobody can redrive them (%d since the start)",
                pruned.lost,
                describe_seconds(self._retention.dead_letters.total_seconds()),
                self.pruned.lost,
            )
