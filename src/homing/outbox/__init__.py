"""Kept with the change: events are recorded, and messages are counted, in the transaction that causes the effect."""

from homing.outbox.expected import expect_ledger, expected_ledger
from homing.outbox.once import once
from homing.outbox.record import record

__all__ = ["expect_ledger", "expected_ledger", "once", "record"]
