"""What other modules may know of orders."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Parcel:
    """What has to go where."""

    address: str
    weight_grams: int


@dataclass(frozen=True, slots=True)
class Contact:
    """Whom to write to, about how much (whole dong)."""

    email: str
    total: int


class Orders(Protocol):
    """The current state of orders, read in a transaction of its own."""

    async def parcel_of(self, order_id: UUID) -> Parcel | None:
        """The parcel of an order; `None` when there is no such order."""
        ...

    async def contact_of(self, order_id: UUID) -> Contact | None:
        """The customer's address for e-mail; `None` when there is no such order."""
        ...
