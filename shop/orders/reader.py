"""Implements the `Orders` port."""

from uuid import UUID

from sqlalchemy import text

from shop.database import Sessions
from shop.orders.port import Contact, Parcel, pack

_PARCEL = text("SELECT address, weight_grams FROM shop.orders WHERE id = :id")
_CONTACT = text("SELECT email, total FROM shop.orders WHERE id = :id")


class OrderReader:
    """Reads the few things that other modules need to know of an order."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def parcels_of(self, order_id: UUID) -> tuple[Parcel, ...]:
        async with self._sessions() as db:
            row = (await db.execute(_PARCEL, {"id": order_id})).one_or_none()
        return () if row is None else pack(*row)

    async def contact_of(self, order_id: UUID) -> Contact | None:
        async with self._sessions() as db:
            row = (await db.execute(_CONTACT, {"id": order_id})).one_or_none()
        return None if row is None else Contact(*row)
