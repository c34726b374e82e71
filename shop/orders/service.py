"""Placing, cancelling and showing orders."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from homing import PermanentError, RetryLater, Throttled, Unauthorized
from homing.http import TransientHTTPError
from shop.database import Sessions
from shop.inventory.port import Inventory, ReservedLine
from shop.orders.checkouts import Checkout, CheckoutRepository
from shop.orders.errors import (
    CannotCancelError,
    CheckoutExpiredError,
    CheckoutInProgressError,
    KeyReusedError,
    OrderNotFoundError,
    PaymentRefusedError,
    PaymentUnavailableError,
)
from shop.orders.order import Line, Order
from shop.orders.repository import OrderRepository
from shop.orders.wish import Wish
from shop.payments.port import Payments, PaymentStatus

NOTHING_DECIDED = (Unauthorized, TransientHTTPError, RetryLater, Throttled)
"""What the gateway's port may raise without having judged this customer; that our own credentials are wrong is not their fault."""


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """An order, and whether an earlier request with the same key had placed it already."""

    order: Order
    replayed: bool


class OrdersService:
    """Every change is one transaction of its own, closed before and opened after the gateway is asked."""

    def __init__(
        self, sessions: Sessions, *, checkouts: CheckoutRepository, inventory: Inventory, payments: Payments
    ) -> None:
        self._sessions = sessions
        self._checkouts = checkouts
        self._inventory = inventory
        self._payments = payments
        self._orders = OrderRepository()

    async def place_order(self, wish: Wish, key: str) -> PlacedOrder:
        """Place an order, or return the one that this key placed before.

        Killed at any point, this leaves a checkout behind: the same key goes on with the same order and the same hold, and
        without it the clean-up gives stock and money back. Raises the errors of `shop.orders.errors` and of the inventory.
        """
        checkout = await self._enter(wish, key)
        if checkout.status == "ordered":
            return PlacedOrder(await self.get(checkout.order_id), replayed=True)
        lines = await self._reserved(checkout)
        total = sum(line.quantity * line.unit_price for line in lines)
        authorization_id = await self._hold_money(checkout, total)
        order = await self._commit(wish, checkout, lines, authorization_id)
        return PlacedOrder(order, replayed=False)

    async def get(self, order_id: UUID) -> Order:
        """The order as it is now."""
        async with self._sessions() as db:
            order = await self._orders.find(db, order_id)
        if order is None:
            raise OrderNotFoundError(order_id)
        return order

    async def payment_status(self, order_id: UUID) -> PaymentStatus | None:
        """Where its payment stands."""
        return await self._payments.status_of(order_id)

    async def cancel(self, order_id: UUID) -> Order:
        """Cancel an order that is not paid yet; cancelling it again changes nothing.

        The payment's row decides: once a capture is written down it is too late. A capture that is on its way to us at this moment
        loses against the cancellation, and becomes a refund that is due.
        """
        async with self._sessions.begin() as tx:
            order = await self._orders.find(tx, order_id, lock=True)
            if order is None:
                raise OrderNotFoundError(order_id)
            if order.status == "cancelled":
                return order
            if not await self._payments.begin_void(tx, order_id):
                raise CannotCancelError(order_id)
            order = order.cancel()
            await self._inventory.release(tx, order_id)
            await self._orders.save(tx, order)
        return order.saved()

    async def _enter(self, wish: Wish, key: str) -> Checkout:
        """The checkout of this key, held by us, unless it led to an order already."""
        async with self._sessions.begin() as tx:
            checkout = await self._checkouts.open(tx, key, wish.fingerprint)
            if checkout is not None:
                await self._inventory.reserve(tx, checkout.order_id, wish.quantities)
                return checkout
            checkout = await self._checkouts.find(tx, key)
            if checkout is None:  # it was there a moment ago, and rows do not leave: the database was emptied under us
                raise CheckoutInProgressError(key)
            return _judge(checkout, wish) or await self._take_over(tx, key)

    async def _take_over(self, tx: AsyncSession, key: str) -> Checkout:
        taken = await self._checkouts.take_over(tx, key)
        if taken is None:
            raise CheckoutInProgressError(key)
        return taken

    async def _reserved(self, checkout: Checkout) -> tuple[ReservedLine, ...]:
        async with self._sessions() as db:
            return await self._inventory.reserved(db, checkout.order_id)

    async def _hold_money(self, checkout: Checkout, total: int) -> str:
        try:
            return await self._payments.authorize(checkout.order_id, total, look_first=checkout.attempts > 1)
        except NOTHING_DECIDED as error:
            async with self._sessions.begin() as tx:
                await self._checkouts.give_back(tx, checkout)
            raise PaymentUnavailableError(checkout.key) from error
        except PermanentError as error:
            await self._refuse(checkout, str(error))
            raise PaymentRefusedError(str(error)) from error

    async def _refuse(self, checkout: Checkout, reason: str) -> None:
        """Close the checkout for good and give the stock back, in one commit."""
        async with self._sessions.begin() as tx:
            if await self._checkouts.finish(tx, checkout, "refused", reason):
                await self._inventory.release(tx, checkout.order_id)

    async def _commit(
        self, wish: Wish, checkout: Checkout, lines: Sequence[ReservedLine], authorization_id: str
    ) -> Order:
        order = Order.place(
            id=checkout.order_id,
            customer_id=wish.customer_id,
            email=wish.email,
            address=wish.address,
            lines=[Line(line.sku, line.quantity, line.unit_price) for line in lines],
            weight_grams=sum(line.quantity * line.weight_grams for line in lines),
        )
        async with self._sessions.begin() as tx:
            if not await self._checkouts.finish(tx, checkout, "ordered"):
                raise CheckoutInProgressError(checkout.key)  # we were too slow: it belongs to somebody else now
            await self._orders.save(tx, order)
            await self._payments.open(
                tx,
                order_id=order.id,
                customer_id=order.customer_id,
                authorization_id=authorization_id,
                amount=order.total,
            )
        return order.saved()


def _judge(checkout: Checkout, wish: Wish) -> Checkout | None:
    """The checkout when it led to an order; an error when it came to nothing; `None` when it is still open."""
    if checkout.fingerprint != wish.fingerprint:
        raise KeyReusedError(checkout.key)
    match checkout.status:
        case "ordered":
            return checkout
        case "refused":
            raise PaymentRefusedError(checkout.refusal)
        case "released":
            raise CheckoutExpiredError(checkout.key)
        case "open":
            return None
        case _:
            assert_never(checkout.status)
