"""Asking the ledger before a run and after a statement that changed nothing; many runs, one read."""

from collections.abc import Sequence

from homing.deadletters.deadletters import DeadLetters
from homing.ledger.gate import Adopt, Asked, Decision, Row, decide
from homing.ledger.gate import Run as MayRun
from homing.ledger.ledger import Ledger
from homing.ledger.statements import READ, as_rows
from homing.queue.port import MOST_TOGETHER
from homing.worker.case import Case
from homing.worker.coalescer import Coalescer


class Gatekeeper:
    """Reads the rows of many jobs in one statement and decides for each; adopts a job that a person retried in place."""

    def __init__(self, ledger: Ledger, dead_letters: DeadLetters) -> None:
        self._ledger = ledger
        self._dead_letters = dead_letters
        self._rows: Coalescer[Case, Row | None] = Coalescer(self._read, most=MOST_TOGETHER)

    async def ask(self, case: Case, asked: Asked = Asked.START) -> Decision:
        """What to do with the job, from the row as it is now; never `Adopt`, which is carried out here."""
        return await self._carry_out(case, _decide(await self._rows.ask(case), case, asked))

    async def ask_all(self, cases: Sequence[Case]) -> list[Decision]:
        """The same for several jobs before they run, in one statement."""
        rows = await self._rows.ask_all(cases)
        decisions = [_decide(row, case) for case, row in zip(cases, rows, strict=True)]
        for place, decision in enumerate(decisions):
            if isinstance(decision, Adopt):
                decisions[place] = await self._carry_out(cases[place], decision)
        return decisions

    async def _carry_out(self, case: Case, decision: Decision) -> Decision:
        if not isinstance(decision, Adopt):
            return decision
        if await self._dead_letters.adopt(case.event_id, case.consumer, case.generation or 1, decision.letter):
            return MayRun()
        return _decide(await self._rows.ask(case), case, Asked.BURY)

    async def _read(self, cases: Sequence[Case]) -> list[Row | None]:
        rows = await self._ledger.fetch(
            READ, rows=as_rows([{"event_id": case.event_id, "consumer": case.consumer} for case in cases])
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
        return [found.get((case.event_id, case.consumer)) for case in cases]


_RUN = MayRun()


def _decide(row: Row | None, case: Case, asked: Asked = Asked.START) -> Decision:
    """As the gate does; what it says to a job that no relay made and that the ledger does not know needs no asking."""
    return _RUN if row is None and case.generation is None else decide(row, case.asking, asked)
