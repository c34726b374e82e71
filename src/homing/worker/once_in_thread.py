"""Settle, call and commit for a plain function: all of it in the thread of the run, on the application's synchronous engine."""

import logging

from homing.ledger.ledger import LOCK_SECONDS
from homing.ledger.statements import FINISH_SETTLE
from homing.schema.statement import load
from homing.worker.calling import Caller
from homing.worker.endings import Ending, Raised, Returned, await_ending, refused, torn
from homing.worker.run import Run
from homing.worker.settling import kept_result, settle_call
from homing.worker.threads import ThreadRun, contain
from homing.worker.transactions import ThreadTransaction, ThreadTransactionSource, is_connection_error

log = logging.getLogger("homing.worker")

BOUND_LOCKS = load("homing.worker", "bound_locks")


async def perform_in_thread(run: Run, source: ThreadTransactionSource, caller: Caller) -> Ending | None:
    """One try in a thread; `None` when settle changed no row. A run that is told to end is never committed, and waits for no answer of ours.

    Errors of the database before the handler began, and those of a lost connection, are raised: nothing is known of this run then.
    """
    opened: list[ThreadTransaction] = []

    def give_up() -> None:
        for transaction in opened:
            transaction.give_up()

    thread = ThreadRun(
        f"run:{run.job.lease.job_id}", lambda: _settle_and_call(run, source, caller, opened), on_cancel=give_up
    )
    return await await_ending(run, thread, thread.ending, thread.stack, caller.timeout_seconds(run))


def _settle_and_call(
    run: Run, source: ThreadTransactionSource, caller: Caller, opened: list[ThreadTransaction]
) -> Ending | None:
    with source.open_in_thread() as transaction:
        opened.append(transaction)
        transaction.fetch(BOUND_LOCKS, wait=f"{LOCK_SECONDS:g}s")
        settled = transaction.fetch(**settle_call(run))
        if settled is None:
            return None
        ending = contain(run, caller.arguments(run, transaction.session))
        if isinstance(ending, Returned) and transaction.ended is None:
            ending = flushed_in_thread(transaction, ending)
        if transaction.ended is not None:
            return refused(transaction.ended, ending)
        if isinstance(ending, Raised):
            _require_connection(run, transaction, ending.error)
            return ending
        if run.cause is not None:
            return Raised(TimeoutError("told to end before the commit"))
        try:
            return _commit(run, transaction, settled["transaction_id"], ending)
        except Exception as error:
            if is_connection_error(error):
                raise
            return Raised(error)


def flushed_in_thread(transaction: ThreadTransaction, returned: Returned) -> Returned | Raised:
    """As for a coroutine: what hooks of the application raise at the flush is the handler's failure."""
    try:
        transaction.flush()
    except BaseException as error:  # noqa: BLE001 - SystemExit too
        return Raised(error)
    return returned


def _require_connection(run: Run, transaction: ThreadTransaction, failure: BaseException) -> None:
    """As for a coroutine: a handler that failed because our connection was lost has not failed."""
    if not is_connection_error(failure):
        return
    try:
        transaction.fetch(FINISH_SETTLE, event_id=run.event_id, consumer=run.consumer, result=None)
    except Exception as error:
        if is_connection_error(error):
            raise
        log.debug("the connection is there, and its transaction has failed: %s", error)


def _commit(run: Run, transaction: ThreadTransaction, began: str, ending: Returned) -> Ending:
    last = transaction.fetch(
        FINISH_SETTLE, event_id=run.event_id, consumer=run.consumer, result=kept_result(ending.result)
    )
    now = None if last is None else last["transaction_id"]
    if now != began:
        return torn(began, now)
    transaction.commit()
    return ending
