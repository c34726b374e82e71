"""Burying and adopting: one guarded statement each, on the ledger's own connection, never in a handler's transaction."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from homing.deadletters.report import ErrorReport, keepable_json
from homing.events.codec import dump_json
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics, declared
from homing.schema.statement import load

Kind = Literal["failed", "poison", "expired", "vanished", "foreign", "torn"]

_HERE = "homing.deadletters"
BURY = load(_HERE, "bury")
BURY_JOB = load(_HERE, "bury_job")
BURY_TORN = load(_HERE, "bury_torn")
ADOPT = load(_HERE, "adopt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A delivery that will not run again by itself. `generation` is `None` for a job that no relay made; `data` is its JSON text.

    `attempts_made` counts runs that counted; `starts`, where it is known, those and the snoozed ones and those without an end.
    """

    event_id: UUID
    consumer: str
    generation: int | None
    queue: str
    job_name: str
    job_id: str
    topic: str
    kind: Kind
    data: str
    error: ErrorReport
    attempts_made: int
    starts: int | None = None


class DeadLetters:
    """The record of deaths. Every method is one transaction of its own and may be repeated after an error.

    With `metrics` every death is counted, once its letter is written.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics | None = None) -> None:
        self._ledger = ledger
        self._metrics = metrics

    async def bury(self, death: Death) -> int | None:
        """Settle the delivery as dead and keep its letter; the letter's id, or `None` when the row says otherwise by now.

        Call it only after the lease was extended, or after the engine was read on a verified connection.
        """
        if death.generation is None:
            row = await self._ledger.fetch_row(
                BURY_JOB,
                topic=death.topic,
                queue=death.queue,
                job_name=death.job_name,
                headers=dump_json({"raw": True}),
                kind=death.kind,
                **_evidence(death),
            )
        else:
            row = await self._ledger.fetch_row(BURY, generation=death.generation, kind=death.kind, **_evidence(death))
        if row is None:
            return None
        self._count(death, "dead")
        return int(row["id"])

    async def bury_torn(self, death: Death) -> int | None:
        """Keep a letter for a delivery that is done although its handler failed after ending the transaction; the row stays."""
        row = await self._ledger.fetch_row(BURY_TORN, **_evidence(death))
        if row is None:
            return None
        self._count(death, "done")
        return int(row["id"])

    async def adopt(self, event_id: UUID, consumer: str, generation: int, letter: int) -> bool:
        """Open a dead delivery again because its job was retried in place; `False` when its letter is closed by now."""
        row = await self._ledger.fetch_row(
            ADOPT, event_id=event_id, consumer=consumer, generation=generation, letter=letter
        )
        return row is not None

    def _count(self, death: Death, outcome: Literal["dead", "done"]) -> None:
        if self._metrics is not None:
            self._metrics.count(declared.SETTLED, death.consumer, outcome)
            self._metrics.count(
                declared.DEAD_LETTERS, death.consumer, self._metrics.error_types.label(death.error.error_class)
            )


def _evidence(death: Death) -> dict[str, object]:
    return {
        "event_id": death.event_id,
        "consumer": death.consumer,
        "job_id": death.job_id,
        "data": keepable_json(death.data),
        "error": death.error.as_json(starts=death.starts),
        "fingerprint": death.error.fingerprint(death.consumer),
        "attempts_made": death.attempts_made,
    }
