"""Handing an order over to the carrier."""

from uuid import UUID

from sqlalchemy import text

from homing import PermanentError
from shop.database import Sessions
from shop.orders.port import Orders
from shop.shipping.port import Carrier

_FIND = text("SELECT tracking_number FROM shop.shipments WHERE order_id = :order_id")
_RECORD = text("""
    INSERT INTO shop.shipments (order_id, tracking_number) VALUES (:order_id, :tracking_number)
    ON CONFLICT (order_id) DO NOTHING""")


class ShippingService:
    """Ships an order once: asks its own table, then the carrier, and only then hands the parcel over."""

    def __init__(self, sessions: Sessions, *, orders: Orders, carrier: Carrier) -> None:
        self._sessions = sessions
        self._orders = orders
        self._carrier = carrier

    async def ship(self, order_id: UUID) -> str:
        """Create the shipment of an order and return its tracking number. Safe to run again at any point, and in parallel."""
        recorded = await self._find(order_id)
        if recorded is not None:
            return recorded
        parcel = await self._orders.parcel_of(order_id)
        if parcel is None:
            raise PermanentError(f"there is no order {order_id} to ship")
        reference = str(order_id)
        number = await self._carrier.find(reference) or await self._carrier.create(reference, parcel)
        await self._record(order_id, number)
        return number

    async def _find(self, order_id: UUID) -> str | None:
        async with self._sessions() as db:
            return (await db.execute(_FIND, {"order_id": order_id})).scalar_one_or_none()

    async def _record(self, order_id: UUID, tracking_number: str) -> None:
        async with self._sessions.begin() as tx:
            await tx.execute(_RECORD, {"order_id": order_id, "tracking_number": tracking_number})
