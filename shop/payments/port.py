"""The two sides of payments: what other modules may ask, and what a gateway must be able to do."""

from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

HoldStatus = Literal["authorized", "captured", "voided", "expired"]
PaymentStatus = Literal["authorized", "captured", "voiding", "voided", "refund_due"]


@dataclass(frozen=True, slots=True)
class Hold:
    """An authorization as the gateway sees it; `capture_id` once it is captured."""

    id: str
    status: HoldStatus
    capture_id: str | None = None


class PaymentGateway(Protocol):
    """Holds and takes money. Its answers are errors by meaning: permanent, throttled, later, transient."""

    async def authorize(self, *, reference: str, amount: int, idempotency_key: str) -> Hold:
        """Hold `amount` whole dong; the same key holds once."""
        ...

    async def find(self, reference: str) -> list[Hold]:
        """Every hold under our reference, whatever became of it."""
        ...

    async def look_up(self, authorization_id: str) -> Hold:
        """A hold as it is now."""
        ...

    async def capture(self, authorization_id: str, amount: int, *, idempotency_key: str) -> str:
        """Take the money and return the capture's id; of capturing and voiding at once, one fails."""
        ...

    async def void(self, authorization_id: str, *, idempotency_key: str) -> Hold:
        """Let the money go, and return the hold as it is then: still `captured`, if a capture was faster."""
        ...


class Payments(Protocol):
    """What orders and maintenance may ask. The methods that take a transaction never commit it."""

    async def authorize(self, order_id: UUID, amount: int, *, look_first: bool) -> str:
        """Hold the money of an order under a key made from its id, and return the authorization's id.

        `look_first`: an earlier request may have held it already and died before it could say so.
        """
        ...

    async def open(
        self, tx: AsyncSession, *, order_id: UUID, customer_id: UUID, authorization_id: str, amount: int
    ) -> None:
        """Write down that the money of an order is held."""
        ...

    async def begin_void(self, tx: AsyncSession, order_id: UUID) -> bool:
        """Decide that the payment will be voided; False when it is captured, and then it must not be."""
        ...

    async def status_of(self, order_id: UUID) -> PaymentStatus | None:
        """Where the payment of an order stands."""
        ...

    async def release_holds(self, order_id: UUID) -> int:
        """Void every hold of an order that came to nothing; returns how many were still on."""
        ...
