"""Undoing checkouts that never became an order: the money is let go, then the stock is given back."""

import logging
from dataclasses import dataclass

from shop.database import Sessions
from shop.inventory.port import Inventory
from shop.orders.checkouts import Checkout, CheckoutRepository
from shop.payments.port import Payments

logger = logging.getLogger(__name__)

BATCH = 50


@dataclass(frozen=True, slots=True)
class Swept:
    """What one round came to: checkouts undone, holds voided on the way, checkouts that have to wait for the next round."""

    released: int = 0
    voided: int = 0
    failed: int = 0

    def plus(self, other: "Swept") -> "Swept":
        """Both together."""
        return Swept(self.released + other.released, self.voided + other.voided, self.failed + other.failed)


class ExpiredCheckouts:
    """Any number may run side by side: each checkout is held by one of them, as it would be by a request."""

    def __init__(
        self, sessions: Sessions, *, checkouts: CheckoutRepository, inventory: Inventory, payments: Payments
    ) -> None:
        self._sessions = sessions
        self._checkouts = checkouts
        self._inventory = inventory
        self._payments = payments

    async def release(self) -> Swept:
        """Undo every expired checkout there is; one that cannot be undone now does not keep the others waiting."""
        swept = Swept()
        while True:
            async with self._sessions.begin() as tx:
                batch = await self._checkouts.take_expired(tx, BATCH)
            if not batch:
                return swept
            for checkout in batch:
                swept = swept.plus(await self._try(checkout))

    async def _try(self, checkout: Checkout) -> Swept:
        try:
            voided = await self._payments.release_holds(checkout.order_id)  # first: until then the stock is paid for
            released = await self._close(checkout)
        except Exception:  # whatever it is: it stays ours until its time is over, and then is tried again
            logger.exception("checkout %s of order %s is not undone yet", checkout.key, checkout.order_id)
            return Swept(failed=1)
        return Swept(released=int(released), voided=voided)

    async def _close(self, checkout: Checkout) -> bool:
        async with self._sessions.begin() as tx:
            if not await self._checkouts.finish(tx, checkout, "released"):
                return False
            await self._inventory.release(tx, checkout.order_id)
        return True
