"""How many points a payment is worth, and where they are kept."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shop.money import whole_dong

DONG_PER_POINT = 10_000

_ADD = text("""
    INSERT INTO shop.loyalty_accounts (customer_id, points) VALUES (:customer_id, :points)
    ON CONFLICT (customer_id) DO UPDATE SET points = loyalty_accounts.points + excluded.points""")

_POINTS = text("SELECT points FROM shop.loyalty_accounts WHERE customer_id = :customer_id")


def points_for(amount: int) -> int:
    """One point for every full 10,000 dong; what is left over counts for nothing."""
    return whole_dong(amount) // DONG_PER_POINT


async def add_points(tx: AsyncSession, customer_id: UUID, points: int) -> None:
    """Add points to a customer's account, which is opened by the first. In the caller's transaction; every call counts."""
    await tx.execute(_ADD, {"customer_id": customer_id, "points": points})


async def points_of(tx: AsyncSession, customer_id: UUID) -> int:
    """A customer's points; 0 without an account."""
    return int((await tx.execute(_POINTS, {"customer_id": customer_id})).scalar_one_or_none() or 0)
