"""Kept with the change: events are recorded in the transaction that causes them."""

from homing.outbox.expected import expect_ledger, expected_ledger
from homing.outbox.record import record

__all__ = ["expect_ledger", "expected_ledger", "record"]
