"""The job of loyalty: its effect is in our database, and commits together with the delivery that caused it."""

from sqlalchemy.ext.asyncio import AsyncSession

from homing import Transaction
from shop.events import PaymentCaptured
from shop.jobs import loyalty
from shop.loyalty.points import add_points, points_for


@loyalty.handler("award-points", on=PaymentCaptured)
async def award_points(event: PaymentCaptured, tx: Transaction[AsyncSession]) -> None:
    """Add the points of a payment. Adding is not repeatable by itself: that it counts once is the transaction's doing."""
    await add_points(tx, event.customer_id, points_for(event.amount))
