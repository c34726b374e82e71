"""The use cases of payments. Knows events and errors by meaning; knows no queue, no worker and no HTTP."""

import logging
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from homing import PermanentError
from shop.database import Sessions
from shop.payments.port import PaymentGateway, PaymentStatus
from shop.payments.repository import Payment, PaymentRepository

logger = logging.getLogger(__name__)


class PaymentsService:
    """Implements `Payments`, and what the payment jobs do."""

    def __init__(self, sessions: Sessions, gateway: PaymentGateway) -> None:
        self._sessions = sessions
        self._gateway = gateway
        self._payments = PaymentRepository()

    async def authorize(self, order_id: UUID, amount: int, *, look_first: bool) -> str:
        if look_first:
            for hold in await self._gateway.find(str(order_id)):
                if hold.status == "authorized":
                    return hold.id
        hold = await self._gateway.authorize(
            reference=str(order_id), amount=amount, idempotency_key=f"authorize-{order_id}"
        )
        return hold.id

    async def open(
        self, tx: AsyncSession, *, order_id: UUID, customer_id: UUID, authorization_id: str, amount: int
    ) -> None:
        await self._payments.open(
            tx, order_id=order_id, customer_id=customer_id, authorization_id=authorization_id, amount=amount
        )

    async def begin_void(self, tx: AsyncSession, order_id: UUID) -> bool:
        return await self._payments.mark_voiding(tx, order_id)

    async def status_of(self, order_id: UUID) -> PaymentStatus | None:
        payment = await self._find(order_id)
        return None if payment is None else payment.status

    async def capture_for_order(self, order_id: UUID) -> str:
        """Take the money of an order, once, and return the capture's id. Safe to run again at any point, and in parallel."""
        payment = await self._find(order_id)  # read and closed: no transaction is open while the gateway is asked
        if payment is None:
            raise PermanentError(f"no payment for order {order_id}")
        if payment.status == "captured" and payment.capture_id is not None:  # 1 an earlier run finished
            return payment.capture_id
        if payment.status != "authorized":
            raise PermanentError(f"the payment of order {order_id} is {payment.status}: it is not to be captured")
        hold = await self._gateway.look_up(payment.authorization_id)  # 2 an earlier run may have died in between
        if hold.status in ("voided", "expired"):
            raise PermanentError(f"authorization {hold.id} of order {order_id} is {hold.status}")
        capture_id = hold.capture_id or await self._gateway.capture(  # 3 a key made from the intent, not from the run
            payment.authorization_id, payment.amount, idempotency_key=f"capture-{order_id}"
        )
        await self._write_down_capture(payment, capture_id)  # 4
        return capture_id

    async def void_for_order(self, order_id: UUID) -> None:
        """Let the money of a cancelled order go. Safe to run again at any point, and beside a capture that came too late."""
        payment = await self._find(order_id)
        if payment is None:
            raise PermanentError(f"no payment for order {order_id}")
        if payment.status in ("voided", "refund_due"):
            return
        if payment.status != "voiding":
            raise PermanentError(f"the payment of order {order_id} is {payment.status}: it is not to be voided")
        hold = await self._gateway.look_up(payment.authorization_id)
        if hold.status == "authorized":
            hold = await self._gateway.void(payment.authorization_id, idempotency_key=f"void-{order_id}")
        async with self._sessions.begin() as tx:
            if hold.capture_id is not None:
                await self._owe_refund(tx, order_id, hold.capture_id)
            else:
                await self._payments.mark_voided(tx, order_id)

    async def release_holds(self, order_id: UUID) -> int:
        holds = [hold for hold in await self._gateway.find(str(order_id)) if hold.status == "authorized"]
        for hold in holds:
            await self._gateway.void(hold.id, idempotency_key=f"void-{hold.id}")
        return len(holds)

    async def _find(self, order_id: UUID) -> Payment | None:
        async with self._sessions() as db:
            return await self._payments.find(db, order_id)

    async def _write_down_capture(self, payment: Payment, capture_id: str) -> None:
        """Compare-and-set and the next event in one commit; a cancellation that was faster makes it a debt instead."""
        async with self._sessions.begin() as tx:
            if not await self._payments.mark_captured(tx, payment, capture_id):
                await self._owe_refund(tx, payment.order_id, capture_id)

    async def _owe_refund(self, tx: AsyncSession, order_id: UUID, capture_id: str) -> None:
        if await self._payments.mark_refund_due(tx, order_id, capture_id):
            logger.error("order %s was cancelled while capture %s was under way: refund it", order_id, capture_id)
