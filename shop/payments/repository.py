"""Payments in PostgreSQL. Every change is a compare-and-set: the row is the referee between runs that meet.

    authorized ──▶ captured
        │
        └────────▶ voiding ──▶ voided
                      └──────▶ refund_due    the gateway had captured before it heard of the cancellation

Everything happens in the caller's transaction; nothing here commits.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import record
from shop.events import PaymentCaptured
from shop.payments.port import PaymentStatus

_OPEN = text("""
    INSERT INTO shop.payments (order_id, customer_id, authorization_id, amount)
    VALUES (:order_id, :customer_id, :authorization_id, :amount)""")

_FIND = text("""
    SELECT order_id, customer_id, authorization_id, amount, status, capture_id
    FROM shop.payments WHERE order_id = :order_id""")

_CAPTURED = text("""
    UPDATE shop.payments SET status = 'captured', capture_id = :capture_id, changed_at = clock_timestamp()
    WHERE order_id = :order_id AND status = 'authorized' RETURNING 1""")

_VOIDING = text("""
    UPDATE shop.payments SET status = 'voiding', changed_at = clock_timestamp()
    WHERE order_id = :order_id AND status = 'authorized' RETURNING 1""")

_VOIDED = text("""
    UPDATE shop.payments SET status = 'voided', changed_at = clock_timestamp()
    WHERE order_id = :order_id AND status = 'voiding' RETURNING 1""")

_REFUND_DUE = text("""
    UPDATE shop.payments SET status = 'refund_due', capture_id = :capture_id, changed_at = clock_timestamp()
    WHERE order_id = :order_id AND status = 'voiding' RETURNING 1""")


@dataclass(frozen=True, slots=True)
class Payment:
    """The money of one order, as far as we know."""

    order_id: UUID
    customer_id: UUID
    authorization_id: str
    amount: int
    status: PaymentStatus
    capture_id: str | None


class PaymentRepository:
    """Each `mark_…` answers whether it was this call that made the change."""

    async def open(
        self, tx: AsyncSession, *, order_id: UUID, customer_id: UUID, authorization_id: str, amount: int
    ) -> None:
        """Write down a hold."""
        values = {
            "order_id": order_id,
            "customer_id": customer_id,
            "authorization_id": authorization_id,
            "amount": amount,
        }
        await tx.execute(_OPEN, values)

    async def find(self, tx: AsyncSession, order_id: UUID) -> Payment | None:
        """The payment of an order."""
        row = (await tx.execute(_FIND, {"order_id": order_id})).one_or_none()
        return None if row is None else Payment(*row)

    async def mark_captured(self, tx: AsyncSession, payment: Payment, capture_id: str) -> bool:
        """Set the payment captured and record `PaymentCaptured`: one commit, or neither, and only ever once."""
        if not await _changed(tx, _CAPTURED, order_id=payment.order_id, capture_id=capture_id):
            return False
        captured = PaymentCaptured(order_id=payment.order_id, customer_id=payment.customer_id, amount=payment.amount)
        await record(tx, captured)
        return True

    async def mark_voiding(self, tx: AsyncSession, order_id: UUID) -> bool:
        """Decide for voiding; from now on no run sets the payment captured."""
        return await _changed(tx, _VOIDING, order_id=order_id)

    async def mark_voided(self, tx: AsyncSession, order_id: UUID) -> bool:
        """The gateway let the money go."""
        return await _changed(tx, _VOIDED, order_id=order_id)

    async def mark_refund_due(self, tx: AsyncSession, order_id: UUID, capture_id: str) -> bool:
        """The order is cancelled and the money was taken all the same: a person must give it back."""
        return await _changed(tx, _REFUND_DUE, order_id=order_id, capture_id=capture_id)


async def _changed(tx: AsyncSession, statement: TextClause, **values: object) -> bool:
    return (await tx.execute(statement, values)).one_or_none() is not None
