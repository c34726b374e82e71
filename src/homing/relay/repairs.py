"""What follows from a look: a job again, a settle, or a dead letter."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from homing.deadletters.deadletters import DeadLetters, Kind
from homing.deadletters.report import ErrorReport, fits_jsonb, report_text
from homing.ids import DeliveryKey
from homing.ledger.ledger import Ledger, Row
from homing.ledger.look import Finding, vanished_limit
from homing.ledger.statements import PAYLOADS
from homing.metrics import Metrics, declared
from homing.queue.job import JobEnd
from homing.queue.port import Engine
from homing.relay.dispatch import SETTLE_OTHERS, Dispatcher, count_settled
from homing.relay.jobs import deadline_seconds
from homing.relay.letters import death_of, key_of

log = logging.getLogger("homing.relay")

MAX_RESULT_CHARACTERS = 65_536
"""Longer results of other systems are not kept: they stay in the job as long as that is kept."""


class Repairs:
    """Carries out what was found. Every step is one guarded statement, so that doing it twice is doing it once."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        dispatcher: Dispatcher,
        dead_letters: DeadLetters,
        *,
        deadline_seconds: float,
        metrics: Metrics,
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._dispatcher = dispatcher
        self._dead_letters = dead_letters
        self._deadline_seconds = deadline_seconds
        self._metrics = metrics

    async def dispatch_again(
        self, queue: str, taken: Mapping[DeliveryKey, Row], found: Mapping[DeliveryKey, Finding]
    ) -> int:
        """Give these deliveries a job again, or a letter where that may no longer be; the number of jobs that are in the engine now.

        `taken`: rows of `looked.sql`, so that no handler holds them and they are still unsettled.
        """
        again: dict[DeliveryKey, Row] = {}
        for key, payload in (await self._payloads(taken, found)).items():
            error = self._death_instead(payload, taken[key])
            if error is not None:
                await self._bury(payload, *error)
            elif found[key] is Finding.GONE or await self._engine.remove(queue, key.job_id):
                again[key] = payload
        _tell(queue, {key: found[key] for key in again})
        dispatched = await self._dispatcher.dispatch(again.values()) if again else []
        for row in dispatched:
            self._metrics.count(declared.REDISPATCHED, row["consumer"], found[key_of(row)].name.lower())
        return len(dispatched)

    async def bury(self, queue: str, keys: Sequence[DeliveryKey], found: Mapping[DeliveryKey, Finding]) -> None:
        """Bury deliveries whose jobs have failed, with what the jobs tell."""
        payloads = await self._payloads(keys, found)
        ends = await self._engine.ends(queue, [key.job_id for key in payloads])
        for (key, payload), end in zip(payloads.items(), ends, strict=True):
            kind: Kind = "failed" if found[key] is Finding.BURIED else "foreign"
            report = report_text("FailedInEngine", end.reason, end.stack)
            await self._bury(payload, kind, report, attempts_made=end.attempts_made)

    async def settle(self, queue: str, keys: Sequence[DeliveryKey]) -> int:
        """Settle deliveries that another system has done or was handed, with the result its job has; how many changed."""
        ends = await self._engine.ends(queue, [key.job_id for key in keys])
        rows = await self._ledger.fetch(
            SETTLE_OTHERS,
            event_ids=[key.event_id for key in keys],
            consumers=[key.consumer for key in keys],
            generations=[key.generation for key in keys],
            results=[foreign_result(end) for end in ends],
        )
        count_settled(self._metrics, rows)
        return len(rows)

    def _death_instead(self, payload: Row, row: Row) -> tuple[Kind, ErrorReport] | None:
        """Why the delivery gets no job any more: its deadline, or that its jobs vanish again and again."""
        deadline = deadline_seconds(payload, self._deadline_seconds)
        if (row["now"] - row["opened_at"]).total_seconds() >= deadline:
            text = f"opened at {row['opened_at']}, not settled within {deadline:g} s"
            return "expired", report_text("DeadlineExceeded", text)
        if row["vanished"] >= vanished_limit(payload["mode"]):
            return "vanished", report_text("JobVanished", f"its job vanished {row['vanished']} times within one epoch")
        return None

    async def _bury(self, payload: Row, kind: Kind, error: ErrorReport, *, attempts_made: int = 0) -> None:
        letter = await self._dead_letters.bury(death_of(payload, kind, error, attempts_made=attempts_made))
        if letter is not None:
            log.error("delivery %s is dead (%s), letter %d: %s", key_of(payload).job_id, kind, letter, error.text)

    async def _payloads(
        self, keys: Iterable[DeliveryKey], found: Mapping[DeliveryKey, Finding]
    ) -> dict[DeliveryKey, Row]:
        wanted = list(keys)
        if not wanted:
            return {}
        rows = await self._ledger.fetch(
            PAYLOADS, event_ids=[key.event_id for key in wanted], consumers=[key.consumer for key in wanted]
        )
        known = {key: row for row in rows if (key := key_of(row)) in found}
        for key in set(wanted) - known.keys():
            log.error("delivery %s: job %s, and its event is missing or it was redriven", key.job_id, found[key].value)
        return known


def foreign_result(end: JobEnd) -> str | None:
    """What another system's worker returned, where it is JSON that the ledger can keep."""
    if end.result is None or len(end.result) > MAX_RESULT_CHARACTERS:
        return None
    try:
        value = json.loads(end.result)
    except (ValueError, RecursionError):
        return None
    return end.result if value is not None and fits_jsonb(value) else None


def _tell(queue: str, again: Mapping[DeliveryKey, Finding]) -> None:
    """A line for each kind of finding: a page may be all of one kind."""
    for finding in dict.fromkeys(again.values()):
        keys = [key for key in again if again[key] is finding]
        lost_commit = finding is Finding.UNSETTLED
        log.log(
            logging.ERROR if lost_commit else logging.WARNING,
            "queue %s: %d jobs %s, dispatched again%s; the first is %s",
            queue,
            len(keys),
            finding.value,
            ": PostgreSQL lost a commit" if lost_commit else "",
            keys[0].job_id,
        )
