"""Orders in PostgreSQL. Everything happens in the caller's transaction; nothing here commits."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import record
from shop.orders.order import Line, Order

_SAVE = text("""
    INSERT INTO shop.orders (id, customer_id, email, address, total, weight_grams, status, cancelled_at)
    VALUES (:id, :customer_id, :email, :address, :total, :weight_grams, cast(:status AS text),
      CASE WHEN :status = 'cancelled' THEN clock_timestamp() END)
    ON CONFLICT (id) DO UPDATE SET status = excluded.status,
      cancelled_at = coalesce(orders.cancelled_at, excluded.cancelled_at)""")

_SAVE_LINE = text("""
    INSERT INTO shop.order_lines (order_id, sku, quantity, unit_price) VALUES (:order_id, :sku, :quantity, :unit_price)
    ON CONFLICT (order_id, sku) DO NOTHING""")

_FIND = text("SELECT id, customer_id, email, address, weight_grams, status FROM shop.orders WHERE id = :id")
_FIND_AND_LOCK = text(_FIND.text + " FOR UPDATE")
_LINES = text("SELECT sku, quantity, unit_price FROM shop.order_lines WHERE order_id = :id ORDER BY sku")


class OrderRepository:
    """Saves an order together with what happened to it."""

    async def save(self, tx: AsyncSession, order: Order) -> None:
        """Write the order and record its events. Call `order.saved()` after the commit, and only then."""
        await tx.execute(
            _SAVE,
            {
                "id": order.id,
                "customer_id": order.customer_id,
                "email": order.email,
                "address": order.address,
                "total": order.total,
                "weight_grams": order.weight_grams,
                "status": order.status,
            },
        )
        lines = [
            {"order_id": order.id, "sku": line.sku, "quantity": line.quantity, "unit_price": line.unit_price}
            for line in order.lines
        ]
        await tx.execute(_SAVE_LINE, lines)
        await record(tx, *order.pull_events())

    async def find(self, tx: AsyncSession, order_id: UUID, *, lock: bool = False) -> Order | None:
        """The order as it is, locked until the end of the transaction if asked for."""
        row = (await tx.execute(_FIND_AND_LOCK if lock else _FIND, {"id": order_id})).one_or_none()
        if row is None:
            return None
        lines = await tx.execute(_LINES, {"id": order_id})
        return Order(
            id=row.id,
            customer_id=row.customer_id,
            email=row.email,
            address=row.address,
            weight_grams=row.weight_grams,
            status=row.status,
            lines=tuple(Line(*line) for line in lines),
        )
