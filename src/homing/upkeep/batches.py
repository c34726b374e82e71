"""A batch of upkeep: a transaction of the ledger that a dry run rolls back, so that its counts are those of the real thing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

from homing.ledger.ledger import Ledger, LedgerTransaction


@asynccontextmanager
async def open_batch(ledger: Ledger, *, dry_run: bool) -> AsyncIterator[LedgerTransaction]:
    """Committed at the end of the block, rolled back by an error and by a dry run."""
    try:
        async with ledger.transaction() as transaction:
            yield transaction
            if dry_run:
                _roll_back()
    except _DryRun:
        return


def _roll_back() -> NoReturn:
    raise _DryRun


class _DryRun(Exception):  # noqa: N818 - no error: how a dry run's transaction is rolled back
    """Nothing of this batch is kept."""
