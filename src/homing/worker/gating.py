"""Asking the ledger before a run and after a statement that changed nothing; many runs, one read."""

from collections.abc import Sequence

from homing.deadletters.deadletters import DeadLetters
from homing.ledger.gate import Adopt, Asked, Asking, Decision, Row, decide
from homing.ledger.gate import Run as MayRun
from homing.ledger.ledger import Ledger
from homing.ledger.statements import READ
from homing.worker.coalescer import Coalescer
from homing.worker.run import Run


class Gatekeeper:
    """Reads the rows of many runs in one statement and decides for each; adopts a job that a person retried in place."""

    def __init__(self, ledger: Ledger, dead_letters: DeadLetters) -> None:
        self._ledger = ledger
        self._dead_letters = dead_letters
        self._rows: Coalescer[Run, Row | None] = Coalescer(self._read)

    async def ask(self, run: Run, asked: Asked = Asked.START) -> Decision:
        """What to do with the run, from the row as it is now; never `Adopt`, which is carried out here."""
        decision = decide(await self._rows.ask(run), _asking(run), asked)
        if not isinstance(decision, Adopt):
            return decision
        if await self._dead_letters.adopt(run.event_id, run.consumer, run.generation or 1, decision.letter):
            return MayRun()
        return decide(await self._rows.ask(run), _asking(run), Asked.BURY)

    async def _read(self, runs: Sequence[Run]) -> list[Row | None]:
        rows = await self._ledger.fetch(
            READ, event_ids=[run.event_id for run in runs], consumers=[run.consumer for run in runs]
        )
        found = {
            (row["event_id"], row["consumer"]): Row(
                generation=row["generation"],
                outcome=row["outcome"],
                opened_at=row["opened_at"],
                result=row["result"],
                letter=row["letter"],
                now=row["now"],
            )
            for row in rows
        }
        return [found.get((run.event_id, run.consumer)) for run in runs]


def _asking(run: Run) -> Asking:
    return Asking(
        generation=run.generation,
        mark=run.job.mark,
        stalls=run.job.stalls,
        deferred_failure=run.job.deferred_failure is not None,
        deadline_seconds=run.handler.policy.deadline_seconds,
    )
