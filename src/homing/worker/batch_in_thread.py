"""A batch of a plain function with a transaction: settle, call and commit in one thread, on the synchronous engine."""

import threading
from collections.abc import Sequence

from homing.ledger.ledger import LOCK_SECONDS
from homing.worker.batch_calling import Endings, arguments_of, await_batch, contain, told_to_end
from homing.worker.batch_settling import FINISH_BATCH, SETTLE_BATCH, finish_values, first_of_each, settle_values
from homing.worker.calling import Caller
from homing.worker.endings import Ending, Raised, Returned, torn
from homing.worker.once_in_thread import BOUND_LOCKS, flushed_in_thread
from homing.worker.run import Run
from homing.worker.threads import ThreadRun
from homing.worker.transactions import ThreadTransaction, ThreadTransactionSource


async def perform_batch_in_thread(runs: Sequence[Run], source: ThreadTransactionSource, caller: Caller) -> Endings:
    """The endings of the runs that are over; the others go alone. A batch that is told to end is never committed."""
    told = threading.Event()
    thread = ThreadRun(
        f"batch:{runs[0].handler.consumer}",
        lambda: _settle_and_call(runs, source, caller, told),
        on_cancel=told.set,
    )
    endings = await await_batch(runs, thread, thread.ending, thread.stack, caller.timeout_seconds(runs[0]))
    return told_to_end(runs) | (endings or {})


def _settle_and_call(
    runs: Sequence[Run], source: ThreadTransactionSource, caller: Caller, told: threading.Event
) -> Endings:
    with source.open_in_thread() as transaction:
        transaction.fetch(BOUND_LOCKS, wait=f"{LOCK_SECONDS:g}s")
        rows = transaction.fetch_all(SETTLE_BATCH, **settle_values(runs))
        places = first_of_each(runs, rows)
        if not places or told.is_set():
            return {}
        members = [runs[place] for place in places]
        arguments = arguments_of(members, caller, transaction.session, told)
        results = contain(runs[0].handler, [run.event for run in members], arguments)
        if transaction.ended is not None or told.is_set() or not isinstance(results, list):
            return {}
        if isinstance(flushed_in_thread(transaction, results[0]), Raised):
            return {}
        endings = _commit(members, results, rows[0]["transaction_id"], transaction)
        return dict(zip(places, endings, strict=True))


def _commit(
    members: Sequence[Run], results: Sequence[Returned], began: str, transaction: ThreadTransaction
) -> Sequence[Ending]:
    last = transaction.fetch(FINISH_BATCH, **finish_values(members, results))
    now = None if last is None else last["transaction_id"]
    if now != began:
        return [torn(began, now)] * len(members)
    transaction.commit()
    return results
