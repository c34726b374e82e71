"""What other modules may know of orders."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

HEAVIEST_PARCEL_GRAMS = 10_000
"""What the carrier takes in one parcel."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What has to go where."""

    address: str
    weight_grams: int


def pack(address: str, weight_grams: int) -> tuple[Parcel, ...]:
    """The parcels of an order, always the same for the same order: full ones, and one with the rest."""
    full, rest = divmod(weight_grams, HEAVIEST_PARCEL_GRAMS)
    weights = [HEAVIEST_PARCEL_GRAMS] * full + [rest] * (rest > 0)
    return tuple(Parcel(address, weight) for weight in weights)


@dataclass(frozen=True, slots=True)
class Contact:
    """Whom to write to, about how much (whole dong)."""

    email: str
    total: int


class Orders(Protocol):
    """The current state of orders, read in a transaction of its own."""

    async def parcels_of(self, order_id: UUID) -> tuple[Parcel, ...]:
        """The parcels of an order, in the order of their numbers, from 1; none when there is no such order."""
        ...

    async def contact_of(self, order_id: UUID) -> Contact | None:
        """The customer's address for e-mail; `None` when there is no such order."""
        ...
