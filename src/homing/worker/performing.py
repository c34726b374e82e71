"""Performing a run under its guarantee: gate, handler, settle, in the order that the guarantee needs."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from homing.app.handlers import Kind
from homing.clock import Clock
from homing.ledger.gate import Asked
from homing.ledger.gate import Run as MayRun
from homing.ledger.ledger import LOCK_SECONDS, Ledger
from homing.ledger.statements import FINISH_SETTLE
from homing.worker.calling import Caller
from homing.worker.endings import Ending, Raised, Returned, Stopped, Unsure, is_cancelled, refused, torn
from homing.worker.gating import Gatekeeper
from homing.worker.once_in_thread import perform_in_thread
from homing.worker.run import Run
from homing.worker.settling import Settled, Settler, kept_result, settle_call
from homing.worker.transactions import (
    AnySource,
    HandlerTransaction,
    ThreadTransactionSource,
    TransactionSource,
    is_connection_error,
)

log = logging.getLogger("homing.worker")


class AtLeastOnce:
    """Gate, handler, settle: the effect is elsewhere and may happen again; the settle follows it at once."""

    def __init__(self, gate: Gatekeeper, settler: Settler, caller: Caller) -> None:
        self._gate = gate
        self._settler = settler
        self._caller = caller

    async def perform(self, run: Run) -> Ending:
        """Run the handler when the gate lets it, and settle its success until the database has it."""
        decision = await self._gate.ask(run.case)
        if not isinstance(decision, MayRun):
            return Stopped(decision)
        ending = await self._caller.call(run)
        if isinstance(ending, Returned):
            await self.settle(run, ending.result)
        return ending

    async def settle(self, run: Run, result: str) -> None:
        """The effect has happened: until the database has it."""
        await self._settler.settle_surely([Settled(run, result)])


class Once:
    """Settle, handler, commit, all in one transaction: the effect and the row that says it happened, or neither."""

    def __init__(
        self,
        gate: Gatekeeper,
        ledger: Ledger,
        sources: Mapping[tuple[Any, Kind], AnySource],
        caller: Caller,
        clock: Clock,
    ) -> None:
        self._gate = gate
        self._ledger = ledger
        self._sources = sources
        self._caller = caller
        self._clock = clock

    async def perform(self, run: Run) -> Ending:
        """Settle first; where that changes no row, ask the gate. Everything is rolled back unless all of it succeeded."""
        if self.seems_expired(run):
            decision = await self._gate.ask(run.case)
            if not isinstance(decision, MayRun):
                return Stopped(decision)
        ending = await self._perform(run)
        if ending is not None:
            return ending
        decision = await self._gate.ask(run.case, Asked.SETTLE)
        if isinstance(decision, MayRun):
            return await self._perform(run) or Stopped(await self._gate.ask(run.case, Asked.BURY))
        return Stopped(decision)

    async def _perform(self, run: Run) -> Ending | None:
        """One try; `None` when settle changed no row."""
        parameter = run.handler.transaction
        if parameter is None:
            raise AssertionError(f"{run.handler.consumer} takes no transaction")
        source = self._sources[parameter.type, run.handler.kind]
        try:
            if run.handler.kind == "thread":
                return await perform_in_thread(run, cast("ThreadTransactionSource", source), self._caller)
            async with cast("TransactionSource", source).open() as transaction:
                return await self._settle_and_call(run, transaction)
        except BaseException as error:  # the handler's errors are contained; this is the database's, at either end
            if is_cancelled():
                raise
            return Unsure(f"{type(error).__name__}: {error}")

    async def _settle_and_call(self, run: Run, transaction: HandlerTransaction) -> Ending | None:
        """Errors before the handler began, and those of a lost connection, are raised: nothing is known of this run then."""
        async with asyncio.timeout(LOCK_SECONDS):
            settled = await transaction.fetch(**settle_call(run))
        if settled is None:
            return None
        ending: Returned | Raised = await self._call(run, transaction)
        if isinstance(ending, Returned) and transaction.ended is None:
            ending = await flushed(transaction, ending)
        if transaction.ended is not None:
            return refused(transaction.ended, ending)
        if isinstance(ending, Raised):
            await self._require_connection(run, transaction, ending)
            return ending
        try:
            return await self._commit(run, transaction, settled["transaction_id"], ending)
        except Exception as error:
            if is_connection_error(error):
                raise
            return Raised(error)

    async def _call(self, run: Run, transaction: HandlerTransaction) -> Returned | Raised:
        """What the handler raises is contained there; what else goes wrong, such as its arguments, is no fault of the database."""
        try:
            return await self._caller.call(run, transaction.session)
        except Exception as error:  # noqa: BLE001 - judged like the handler's own error
            return Raised(error)

    async def _require_connection(self, run: Run, transaction: HandlerTransaction, ending: Raised) -> None:
        """A handler that failed because our connection was lost has not failed: raise what says so, and spend no attempt."""
        if ending.stuck or not is_connection_error(ending.error):
            return
        try:
            await transaction.fetch(FINISH_SETTLE, event_id=run.event_id, consumer=run.consumer, result=None)
        except Exception as error:
            if is_connection_error(error):
                raise
            log.debug("the connection is there, and its transaction has failed: %s", error)

    async def _commit(self, run: Run, transaction: HandlerTransaction, began: str, ending: Returned) -> Ending:
        last = await transaction.fetch(
            FINISH_SETTLE, event_id=run.event_id, consumer=run.consumer, result=kept_result(ending.result)
        )
        now = None if last is None else last["transaction_id"]
        if now != began:
            return torn(began, now)
        await transaction.commit()
        return ending

    def seems_expired(self, run: Run) -> bool:
        """Whether the deadline that its job carries has passed; then the row must be asked before it is settled."""
        opened_at = run.envelope.opened_at
        if opened_at is None:
            return False
        now = self._clock.now() + timedelta(seconds=self._ledger.clock_offset_seconds)
        return opened_at + timedelta(seconds=run.handler.policy.deadline_seconds) <= now


async def flushed(transaction: HandlerTransaction, returned: Returned) -> Returned | Raised:
    """What a handler comes to whose session may hold more to be written: hooks of the application run then, and may raise anything, SystemExit too."""
    try:
        await transaction.flush()
    except BaseException as error:
        if is_cancelled():
            raise
        return Raised(error)
    return returned
