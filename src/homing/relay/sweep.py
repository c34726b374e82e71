"""The sweep: unsettled deliveries are compared with the engine and dispatched again when their job is gone.

This is what makes the engine's data disposable. Every delivery is looked at by time alone; a new epoch only makes it sooner.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

from homing.clock import Clock, SystemClock
from homing.deadletters.deadletters import DeadLetters
from homing.errors import HomingError, ServerUnavailable
from homing.ids import DeliveryKey
from homing.ledger.ledger import Ledger, Row
from homing.ledger.look import Finding, Step, find, next_step
from homing.ledger.statements import LOOK, LOOKED, SWEEP, YIELD_SWEEP
from homing.metrics import Metrics
from homing.queue.job import JobTrace
from homing.queue.port import Engine
from homing.relay import audit
from homing.relay.audit import Audit
from homing.relay.dispatch import Dispatcher
from homing.relay.letters import key_of
from homing.relay.pace import Pace
from homing.relay.repairs import Repairs
from homing.relay.watch import QueueWatch
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.relay")

MODES = load("homing.relay", "modes")

PAGE = 500
SWEEPER_SECONDS = 10.0


class Sweep:
    """Looks at the due deliveries of every verified queue, a page at a time, under the queue's sweeper lease.

    `rate`: rows per second and queue that are looked at, and so the most that are dispatched again. `findings` counts what was found, by the
    words of `Finding`; `id` is who holds the leases; `redispatched` the jobs that the engine took because of it. However many rows are due, one page is in memory.
    """

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        watch: QueueWatch,
        dispatcher: Dispatcher,
        dead_letters: DeadLetters,
        *,
        grace_seconds: float,
        deadline_seconds: float,
        rate: float,
        metrics: Metrics,
        clock: Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._watch = watch
        self._grace_seconds = grace_seconds
        self._clock = clock or SystemClock()
        self._pace = Pace(rate, self._clock)
        self._audit = Audit(engine, self._clock)
        self._repairs = Repairs(
            ledger, engine, dispatcher, dead_letters, deadline_seconds=deadline_seconds, metrics=metrics
        )
        self.id = uuid4()
        self.redispatched = 0
        self.findings: Counter[str] = Counter()

    async def tick(self) -> Progress:
        """Look at one page of every queue; `AGAIN` when one of them was full.

        A queue whose engine refuses the questions rests by itself; an engine or a ledger that is away is reported after all queues had
        their turn.
        """
        epochs = self._watch.epochs
        answers = await asyncio.gather(
            *(self._sweep(queue, epoch) for queue, epoch in epochs.items()), return_exceptions=True
        )
        more = False
        for queue, answer in zip(epochs, answers, strict=True):
            match answer:
                case bool():
                    more |= answer
                case HomingError() if not isinstance(answer, ServerUnavailable):
                    self._watch.doubt(queue)
                    log.error("queue %s cannot be looked at: %s", queue, answer)
                case _:
                    raise answer
        return Progress.AGAIN if more else Progress.REST

    async def stop(self) -> None:
        """Give up the leases on the queues: the next relay looks at once. Where nobody answers, they end by themselves."""
        try:
            await self._ledger.fetch(YIELD_SWEEP, sweeper=self.id)
        except ServerUnavailable as error:
            log.info("the next relay waits up to %g s before it looks: %s", SWEEPER_SECONDS, error)

    async def _sweep(self, queue: str, epoch: int) -> bool:
        if not await self._ledger.fetch(SWEEP, queue=queue, sweeper=self.id, lease_seconds=SWEEPER_SECONDS):
            return False
        page = await self._pace.permit(queue, PAGE)
        rows = await self._ledger.fetch(LOOK, queue=queue, epoch=epoch, page=page, grace_seconds=self._grace_seconds)
        self._pace.spend(queue, len(rows))
        taken = await self._look(queue, epoch, rows) if rows else 0
        return len(rows) == page and taken > 0

    async def _look(self, queue: str, epoch: int, rows: Sequence[Row]) -> int:
        """Compare and repair; the number of rows that no handler held."""
        found = await self._find(queue, rows)
        modes = await self._modes(rows)
        steps = {key: next_step(finding, modes.get((key.event_id, key.consumer))) for key, finding in found.items()}
        to_settle = [key for key, step in steps.items() if step is Step.SETTLE]
        settled = await self._repairs.settle(queue, to_settle) if to_settle else 0
        taken = await self._looked(epoch, {key: step for key, step in steps.items() if step is not Step.SETTLE})
        gone = {key: row for key, row in taken.items() if row["gone"]}
        self.findings.update(found[key].value for key in (*to_settle, *taken))
        self.redispatched += await self._repairs.dispatch_again(queue, gone, found)
        dead = [key for key in taken if steps[key] is Step.BURY]
        if dead:
            await self._repairs.bury(queue, dead, found)
        return len(taken) + settled

    async def _modes(self, rows: Sequence[Row]) -> dict[tuple[UUID, str], str]:
        """Of the deliveries for other systems, what was promised there."""
        found = await self._ledger.fetch(
            MODES,
            event_ids=[row["event_id"] for row in rows],
            consumers=[row["consumer"] for row in rows],
        )
        return {(row["event_id"], row["consumer"]): row["mode"] for row in found}

    async def _looked(self, epoch: int, steps: dict[DeliveryKey, Step]) -> dict[DeliveryKey, Row]:
        """Write down what was found of each; the rows that were unsettled and that nobody held."""
        if not steps:
            return {}
        rows = await self._ledger.fetch(
            LOOKED,
            event_ids=[key.event_id for key in steps],
            consumers=[key.consumer for key in steps],
            generations=[key.generation for key in steps],
            gone=[step is Step.DISPATCH for step in steps.values()],
            epoch=epoch,
        )
        return {key_of(row): row for row in rows}

    async def _find(self, queue: str, rows: Sequence[Row]) -> dict[DeliveryKey, Finding]:
        """What the engine shows of each.

        What lives for long is audited, and what lives although its add failed (epoch 0): a script that breaks off in the middle leaves a
        job behind that is in no list.
        """
        keys = [key_of(row) for row in rows]
        traces = await self._engine.inspect(queue, [key.job_id for key in keys])
        found = {key: _finding(trace) for key, trace in zip(keys, traces, strict=True)}
        born_before = self._clock.now() - timedelta(seconds=audit.OLD_SECONDS - self._ledger.clock_offset_seconds)
        suspects = {
            key.job_id: key
            for key, row in zip(keys, rows, strict=True)
            if found[key] is Finding.ALIVE and (row["opened_at"] <= born_before or row["epoch"] == 0)
        }
        for job_id in await self._audit.adrift(queue, suspects):
            found[suspects[job_id]] = Finding.ADRIFT
        return found


def _finding(trace: JobTrace) -> Finding:
    return find(
        exists=trace.exists,
        named=trace.name is not None,
        finished=trace.finished,
        failed=trace.failed_reason is not None,
        mark=trace.mark,
    )
