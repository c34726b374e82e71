"""The inventory on PostgreSQL: the table's own CHECK is what keeps stock from going below zero."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shop.inventory.port import OutOfStockError, ReservedLine, UnknownProductError
from shop.money import whole_dong

_PUT_ON_SALE = text("""
    INSERT INTO shop.stock (sku, unit_price, weight_grams, available) VALUES (:sku, :unit_price, :weight_grams, :pieces)
    ON CONFLICT (sku) DO UPDATE SET unit_price = excluded.unit_price, weight_grams = excluded.weight_grams,
      available = stock.available + excluded.available""")

_TAKE = text("""
    UPDATE shop.stock SET available = available - :quantity WHERE sku = :sku AND available >= :quantity
    RETURNING unit_price, weight_grams""")

_AVAILABLE = text("SELECT available FROM shop.stock WHERE sku = :sku")

_RESERVE = text("""
    INSERT INTO shop.reservations (order_id, sku, quantity, unit_price, weight_grams)
    VALUES (:order_id, :sku, :quantity, :unit_price, :weight_grams)""")

_RESERVED = text("""
    SELECT sku, quantity, unit_price, weight_grams FROM shop.reservations
    WHERE order_id = :order_id AND released_at IS NULL ORDER BY sku""")

_LOCK = text("""
    SELECT 1 FROM shop.stock WHERE sku IN (SELECT sku FROM shop.reservations WHERE order_id = :order_id)
    ORDER BY sku FOR UPDATE""")

_RELEASE = text("""
    WITH released AS (
      UPDATE shop.reservations SET released_at = clock_timestamp()
      WHERE order_id = :order_id AND released_at IS NULL RETURNING sku, quantity),
    returned AS (
      UPDATE shop.stock SET available = available + released.quantity FROM released WHERE stock.sku = released.sku)
    SELECT coalesce(sum(quantity), 0)::bigint FROM released""")


class Stock:
    """Implements `Inventory`. Rows are always locked in the order of their sku, so that two orders never wait in a circle."""

    async def put_on_sale(self, tx: AsyncSession, sku: str, *, unit_price: int, weight_grams: int, pieces: int) -> None:
        """Add `pieces` to the stock and set price (whole dong) and weight from now on."""
        await tx.execute(
            _PUT_ON_SALE,
            {"sku": sku, "unit_price": whole_dong(unit_price), "weight_grams": weight_grams, "pieces": pieces},
        )

    async def available(self, tx: AsyncSession, sku: str) -> int:
        """How many pieces are left to sell; raises `UnknownProductError`."""
        left = (await tx.execute(_AVAILABLE, {"sku": sku})).scalar_one_or_none()
        if left is None:
            raise UnknownProductError(sku)
        return int(left)

    async def reserve(self, tx: AsyncSession, order_id: UUID, wanted: Mapping[str, int]) -> tuple[ReservedLine, ...]:
        return tuple([await self._reserve_line(tx, order_id, sku, wanted[sku]) for sku in sorted(wanted)])

    async def reserved(self, tx: AsyncSession, order_id: UUID) -> tuple[ReservedLine, ...]:
        rows = await tx.execute(_RESERVED, {"order_id": order_id})
        return tuple(ReservedLine(*row) for row in rows)

    async def release(self, tx: AsyncSession, order_id: UUID) -> int:
        await tx.execute(_LOCK, {"order_id": order_id})
        return int((await tx.execute(_RELEASE, {"order_id": order_id})).scalar_one())

    async def _reserve_line(self, tx: AsyncSession, order_id: UUID, sku: str, quantity: int) -> ReservedLine:
        taken = (await tx.execute(_TAKE, {"sku": sku, "quantity": quantity})).one_or_none()
        if taken is None:
            raise OutOfStockError(sku, quantity, await self.available(tx, sku))
        line = ReservedLine(sku, quantity, taken.unit_price, taken.weight_grams)
        await tx.execute(
            _RESERVE,
            {
                "order_id": order_id,
                "sku": sku,
                "quantity": quantity,
                "unit_price": line.unit_price,
                "weight_grams": line.weight_grams,
            },
        )
        return line
