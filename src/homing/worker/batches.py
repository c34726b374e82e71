"""Batch handlers: many events in one call, and in one transaction where the handler takes one.

A run joins the batch that leaves next: alone it leaves at once, in a crowd up to `batch` of them leave together. When a batch fails,
nothing of it is kept, and its events are run one by one, so that a bad one costs the others nothing but time.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Protocol, cast

from homing.app.handlers import Handler, Kind
from homing.ledger.gate import Run as MayRun
from homing.ledger.ledger import LOCK_SECONDS
from homing.worker.batch_calling import Endings, call_batch
from homing.worker.batch_in_thread import perform_batch_in_thread
from homing.worker.batch_settling import FINISH_BATCH, SETTLE_BATCH, finish_values, first_of_each, settle_values
from homing.worker.calling import Caller
from homing.worker.coalescer import Coalescer
from homing.worker.context import BatchContext
from homing.worker.endings import Ending, Raised, Returned, Stopped, Unsure, is_cancelled, torn
from homing.worker.gating import Gatekeeper
from homing.worker.performing import AtLeastOnce, Once, flushed
from homing.worker.run import Run
from homing.worker.transactions import (
    AnySource,
    HandlerTransaction,
    ThreadTransactionSource,
    TransactionSource,
    is_connection_error,
)


class Guarantee(Protocol):
    """How one run is performed."""

    async def perform(self, run: Run) -> Ending:
        """Perform one run."""
        ...


class Batching(ABC):
    """Performs the runs of batch handlers together, and every other run as `alone` does."""

    def __init__(self, alone: Guarantee) -> None:
        self._alone = alone
        self._batches: dict[str, Coalescer[_Member, Ending]] = {}

    async def perform(self, run: Run) -> Ending:
        """Perform a run, with others of its handler where it is a batch handler."""
        if run.handler.batch is None or run.generation is None:
            return await self._alone.perform(run)
        batch = self._batches.get(run.handler.consumer)
        if batch is None:
            batch = Coalescer(self._perform_all, most=run.handler.batch, context=copy_context)
            self._batches[run.handler.consumer] = batch
        return await batch.ask(_Member(run, copy_context()))

    async def _perform_all(self, members: Sequence["_Member"]) -> list[Ending]:
        if len(members) == 1:
            return [await self._perform_alone(members[0])]
        runs = [member.run for member in members]
        with BatchContext(runs):
            endings = await self._together(runs)
        for place, member in enumerate(members):
            if place not in endings:
                endings[place] = await self._perform_alone(member)
        return [endings[place] for place in range(len(runs))]

    async def _perform_alone(self, member: "_Member") -> Ending:
        """In the run's own context: whoever collects a batch is some other run's task."""
        return await asyncio.create_task(self._alone.perform(member.run), context=member.context)

    @abstractmethod
    async def _together(self, runs: Sequence[Run]) -> Endings:
        """Perform runs of one batch handler in one call."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A run that joins a batch, with its own log fields, trace and span."""

    run: Run
    context: Context


class BatchAtLeastOnce(Batching):
    """Gate all, call once, settle all."""

    def __init__(self, alone: AtLeastOnce, gate: Gatekeeper, caller: Caller) -> None:
        super().__init__(alone)
        self._one = alone
        self._gate = gate
        self._caller = caller

    async def _together(self, runs: Sequence[Run]) -> Endings:
        decisions = await self._gate.ask_all([run.case for run in runs])
        endings: Endings = {
            place: Stopped(decision) for place, decision in enumerate(decisions) if not isinstance(decision, MayRun)
        }
        places = [place for place in range(len(runs)) if place not in endings]
        if not places:
            return endings
        results = await call_batch([runs[place] for place in places], self._caller, None)
        endings |= zip_endings(places, results)
        await asyncio.gather(
            *(
                self._one.settle(runs[place], ending.result)
                for place, ending in endings.items()
                if isinstance(ending, Returned)
            )
        )
        return endings


class BatchOnce(Batching):
    """Settle all, call once, commit: one transaction for the batch."""

    def __init__(self, alone: Once, sources: Mapping[tuple[Any, Kind], AnySource], caller: Caller) -> None:
        super().__init__(alone)
        self._one = alone
        self._sources = sources
        self._caller = caller

    async def _together(self, runs: Sequence[Run]) -> Endings:
        places = [place for place, run in enumerate(runs) if not self._one.seems_expired(run)]
        if not places:
            return {}
        fresh = [runs[place] for place in places]
        try:
            endings = await self._perform_fresh(fresh, self._source(fresh[0].handler))
        except (
            BaseException
        ) as error:  # the handler's errors are contained; this is the database's, or of a hook of the flush
            if is_cancelled():
                raise
            if is_connection_error(error):
                return dict.fromkeys(places, Unsure(f"{type(error).__name__}: {error}"))
            return {}
        return zip_endings(places, endings)

    async def _perform_fresh(self, runs: Sequence[Run], source: AnySource) -> Endings:
        if runs[0].handler.kind == "thread":
            return await perform_batch_in_thread(runs, cast("ThreadTransactionSource", source), self._caller)
        async with cast("TransactionSource", source).open() as transaction:
            return await self._settle_and_call(runs, transaction)

    async def _settle_and_call(self, runs: Sequence[Run], transaction: HandlerTransaction) -> Endings:
        async with asyncio.timeout(LOCK_SECONDS):
            rows = await transaction.fetch_all(SETTLE_BATCH, **settle_values(runs))
        places = first_of_each(runs, rows)
        if not places:
            return {}
        members = [runs[place] for place in places]
        results = await call_batch(members, self._caller, transaction.session)
        if not isinstance(results, list):
            return zip_endings(places, results)
        if transaction.ended is not None or isinstance(await flushed(transaction, results[0]), Raised):
            return {}
        return zip_endings(places, await self._commit(members, results, rows[0]["transaction_id"], transaction))

    async def _commit(
        self, members: Sequence[Run], results: Sequence[Returned], began: str, transaction: HandlerTransaction
    ) -> Sequence[Ending]:
        last = await transaction.fetch(FINISH_BATCH, **finish_values(members, results))
        now = None if last is None else last["transaction_id"]
        if now != began:
            return [torn(began, now)] * len(members)
        await transaction.commit()
        return results

    def _source(self, handler: Handler) -> AnySource:
        parameter = handler.transaction
        if parameter is None:
            raise AssertionError(f"{handler.consumer} takes no transaction")
        return self._sources[parameter.type, handler.kind]


def zip_endings(places: Sequence[int], results: "Sequence[Ending] | dict[int, Ending]") -> Endings:
    """Put the results of the members back to their places in the batch."""
    if isinstance(results, dict):
        return {places[member]: ending for member, ending in results.items()}
    return dict(zip(places, results, strict=True))
