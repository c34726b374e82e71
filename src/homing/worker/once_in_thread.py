"""Settle, call and commit for a plain function: all of it in the thread of the run, on the application's synchronous engine."""

from homing.ledger.ledger import LOCK_SECONDS
from homing.ledger.statements import FINISH_SETTLE
from homing.schema.statement import load
from homing.worker.calling import Caller
from homing.worker.endings import Ending, Raised, Returned, await_ending, refused, torn
from homing.worker.run import Run
from homing.worker.settling import kept_result, settle_call
from homing.worker.threads import ThreadRun, contain
from homing.worker.transactions import ThreadTransaction, ThreadTransactionSource, is_connection_error

BOUND_LOCKS = load("homing.worker", "bound_locks")


async def perform_in_thread(run: Run, source: ThreadTransactionSource, caller: Caller) -> Ending | None:
    """One try in a thread; `None` when settle changed no row. A run that is told to end is never committed.

    Errors of the database before the handler began, and those of a lost connection, are raised: nothing is known of this run then.
    """
    thread = ThreadRun(f"run:{run.job.lease.job_id}", lambda: _settle_and_call(run, source, caller))
    return await await_ending(run, thread, thread.ending, thread.stack, caller.timeout_seconds(run))


def _settle_and_call(run: Run, source: ThreadTransactionSource, caller: Caller) -> Ending | None:
    with source.open_in_thread() as transaction:
        transaction.fetch(BOUND_LOCKS, wait=f"{LOCK_SECONDS:g}s")
        settled = transaction.fetch(**settle_call(run))
        if settled is None:
            return None
        ending = contain(run, caller.arguments(run, transaction.session))
        if transaction.ended is not None:
            return refused(transaction.ended, ending)
        if isinstance(ending, Raised) or run.cause is not None:
            return ending if isinstance(ending, Raised) else Raised(TimeoutError("told to end before the commit"))
        try:
            return _commit(run, transaction, settled["transaction_id"], ending)
        except Exception as error:
            if is_connection_error(error):
                raise
            return Raised(error)


def _commit(run: Run, transaction: ThreadTransaction, began: str, ending: Returned) -> Ending:
    transaction.flush()
    last = transaction.fetch(
        FINISH_SETTLE, event_id=run.event_id, consumer=run.consumer, result=kept_result(ending.result)
    )
    now = None if last is None else last["transaction_id"]
    if now != began:
        return torn(began, now)
    transaction.commit()
    return ending
