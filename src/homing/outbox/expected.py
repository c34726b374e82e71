"""Which ledger the running work belongs to, so that its events cannot be recorded in somebody else's."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

expected_ledger: ContextVar[UUID | None] = ContextVar("homing_expected_ledger", default=None)
"""The ledger that `record` must find behind the caller's connection; `None` (any ledger) outside a worker's run."""


@contextmanager
def expect_ledger(ledger_id: UUID) -> Iterator[None]:
    """Inside the block, for this task and what it starts, `record` refuses every database but that of `ledger_id`."""
    token = expected_ledger.set(ledger_id)
    try:
        yield
    finally:
        expected_ledger.reset(token)
