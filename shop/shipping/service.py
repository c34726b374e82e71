"""Handing parcels over to the carrier."""

from uuid import UUID

from sqlalchemy import text

from homing import PermanentError
from shop.database import Sessions
from shop.orders.port import Orders
from shop.shipping.port import Carrier

_FIND = text("SELECT tracking_number FROM shop.shipments WHERE order_id = :order_id AND parcel = :parcel")
_RECORD = text("""
    INSERT INTO shop.shipments (order_id, parcel, tracking_number) VALUES (:order_id, :parcel, :tracking_number)
    ON CONFLICT (order_id, parcel) DO NOTHING""")


class ShippingService:
    """Ships each parcel once: asks its own table, then the carrier, and only then hands the parcel over."""

    def __init__(self, sessions: Sessions, *, orders: Orders, carrier: Carrier) -> None:
        self._sessions = sessions
        self._orders = orders
        self._carrier = carrier

    async def ship(self, order_id: UUID, number: int) -> str:
        """Create the shipment of an order's parcel and return its tracking number. Safe to run again at any point, and in parallel."""
        recorded = await self._find(order_id, number)
        if recorded is not None:
            return recorded
        parcels = await self._orders.parcels_of(order_id)
        if not 1 <= number <= len(parcels):
            raise PermanentError(f"there is no parcel {number} of order {order_id} to ship, it has {len(parcels)}")
        reference = reference_of(order_id, number)
        tracking_number = await self._carrier.find(reference) or await self._carrier.create(
            reference, parcels[number - 1]
        )
        await self._record(order_id, number, tracking_number)
        return tracking_number

    async def _find(self, order_id: UUID, number: int) -> str | None:
        async with self._sessions() as db:
            return (await db.execute(_FIND, {"order_id": order_id, "parcel": number})).scalar_one_or_none()

    async def _record(self, order_id: UUID, number: int, tracking_number: str) -> None:
        values = {"order_id": order_id, "parcel": number, "tracking_number": tracking_number}
        async with self._sessions.begin() as tx:
            await tx.execute(_RECORD, values)


def reference_of(order_id: UUID, number: int) -> str:
    """Our name for a parcel, under which the carrier is asked before it is given one."""
    return f"{order_id}-{number}"
