"""The sweep: unsettled deliveries are compared with the engine and dispatched again when their job is gone.

This is what makes the engine's data disposable. Every delivery is looked at by time alone; a new epoch only makes it sooner.
"""

import logging
from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

from homing.deadletters.deadletters import DeadLetters, Death, Kind
from homing.deadletters.report import ErrorReport, report_text
from homing.ids import DeliveryKey
from homing.ledger.ledger import Ledger, Row
from homing.ledger.look import Finding, find
from homing.ledger.statements import LOOK, LOOKED, PAYLOADS, SWEEP
from homing.queue.job import JobTrace
from homing.queue.port import Engine
from homing.relay.dispatch import Dispatcher
from homing.relay.jobs import deadline_seconds, job_of
from homing.relay.watch import QueueWatch
from homing.service import Progress

log = logging.getLogger("homing.relay")

PAGE = 500
SWEEPER_SECONDS = 10.0
VANISHED_LIMIT = 5
"""Times a delivery's job may be found gone within one epoch before the delivery is dead."""


class Sweep:
    """Looks at the due deliveries of every verified queue, a page at a time, under the queue's sweeper lease."""

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
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._watch = watch
        self._dispatcher = dispatcher
        self._dead_letters = dead_letters
        self._grace_seconds = grace_seconds
        self._deadline_seconds = deadline_seconds
        self._id = uuid4()
        self.redispatched = 0

    async def tick(self) -> Progress:
        """Look at one page of every queue; `AGAIN` when one of them was full. A queue that errs is reported after the others."""
        more = False
        failures: list[Exception] = []
        for queue, epoch in self._watch.epochs.items():
            try:
                more |= await self._sweep(queue, epoch)
            except Exception as error:  # noqa: BLE001 - raised below, once every queue had its turn
                failures.append(error)
        if failures:
            raise failures[0]
        return Progress.AGAIN if more else Progress.REST

    async def _sweep(self, queue: str, epoch: int) -> bool:
        if not await self._ledger.fetch(SWEEP, queue=queue, sweeper=self._id, lease_seconds=SWEEPER_SECONDS):
            return False
        rows = await self._ledger.fetch(LOOK, queue=queue, epoch=epoch, page=PAGE, grace_seconds=self._grace_seconds)
        taken = await self._look(queue, epoch, [_key(row) for row in rows]) if rows else 0
        return len(rows) == PAGE and taken > 0

    async def _look(self, queue: str, epoch: int, keys: Sequence[DeliveryKey]) -> int:
        """Compare and repair; the number of rows that no handler held."""
        traces = await self._engine.inspect(queue, [key.job_id for key in keys])
        found = {key: (_finding(trace), trace) for key, trace in zip(keys, traces, strict=True)}
        rows = await self._ledger.fetch(
            LOOKED,
            event_ids=[key.event_id for key in keys],
            consumers=[key.consumer for key in keys],
            generations=[key.generation for key in keys],
            gone=[finding.dispatch_again for finding, _ in found.values()],
            epoch=epoch,
        )
        taken = {_key(row): row for row in rows}
        await self._dispatch_again(queue, {key: row for key, row in taken.items() if row["gone"]}, found)
        for key in taken:
            finding, trace = found[key]
            if finding in (Finding.BURIED, Finding.FAILED):
                await self._bury_failed(key, finding, trace)
        return len(taken)

    async def _dispatch_again(
        self,
        queue: str,
        gone: Mapping[DeliveryKey, Row],
        found: Mapping[DeliveryKey, tuple[Finding, JobTrace]],
    ) -> None:
        again = []
        payloads = await self._payloads(list(gone))
        for key in gone.keys() - payloads.keys():
            log.error("delivery %s: job %s, and its event is missing", key.job_id, found[key][0].value)
        for key, payload in payloads.items():
            row, finding = gone[key], found[key][0]
            age_seconds = (row["now"] - row["opened_at"]).total_seconds()
            deadline = deadline_seconds(payload, self._deadline_seconds)
            if age_seconds >= deadline:
                text = f"opened at {row['opened_at']}, not settled within {deadline:g} s"
                await self._bury(payload, "expired", report_text("DeadlineExceeded", text))
            elif row["vanished"] >= VANISHED_LIMIT:
                text = f"its job vanished {row['vanished']} times within one epoch"
                await self._bury(payload, "vanished", report_text("JobVanished", text))
            elif not finding.remove_first or await self._engine.remove(queue, key.job_id):
                again.append(payload)
                log.warning("delivery %s: job %s, dispatched again", key.job_id, finding.value)
        self.redispatched += await self._dispatcher.dispatch(again)

    async def _bury_failed(self, key: DeliveryKey, finding: Finding, trace: JobTrace) -> None:
        payload = (await self._payloads([key])).get(key)
        if payload is None:
            log.error("delivery %s: %s, and its event is missing", key.job_id, finding.value)
            return
        kind: Kind = "failed" if finding is Finding.BURIED else "foreign"
        await self._bury(payload, kind, report_text("FailedInEngine", trace.failed_reason or ""))

    async def _bury(self, payload: Row, kind: Kind, error: ErrorReport) -> None:
        job = job_of(payload)
        letter = await self._dead_letters.bury(
            Death(
                event_id=payload["event_id"],
                consumer=payload["consumer"],
                generation=payload["generation"],
                queue=payload["queue"],
                job_name=job.name,
                job_id=job.id,
                topic="",
                kind=kind,
                data=job.data,
                error=error,
                attempts_made=0,
            )
        )
        if letter is not None:
            log.error("delivery %s is dead (%s), letter %d: %s", job.id, kind, letter, error.text)

    async def _payloads(self, keys: Sequence[DeliveryKey]) -> dict[DeliveryKey, Row]:
        if not keys:
            return {}
        event_ids: list[UUID] = [key.event_id for key in keys]
        rows = await self._ledger.fetch(PAYLOADS, event_ids=event_ids, consumers=[key.consumer for key in keys])
        wanted = set(keys)
        return {key: row for row in rows if (key := _key(row)) in wanted}


def _key(row: Row) -> DeliveryKey:
    return DeliveryKey(row["event_id"], row["consumer"], row["generation"])


def _finding(trace: JobTrace) -> Finding:
    return find(
        exists=trace.exists,
        named=trace.name is not None,
        finished=trace.finished,
        failed=trace.failed_reason is not None,
        mark=trace.mark,
    )
