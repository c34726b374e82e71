"""What a carrier must be able to do."""

from typing import Protocol

from shop.orders.port import Parcel


class Carrier(Protocol):
    """Carries parcels. Knows no idempotency keys; it can be asked for what it has under our reference."""

    async def find(self, reference: str) -> str | None:
        """The tracking number of the shipment under our reference, if there is one."""
        ...

    async def create(self, reference: str, parcel: Parcel) -> str:
        """Hand a parcel over and return its tracking number; a reference that is taken gives the number it has."""
        ...
