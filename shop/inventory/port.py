"""What other modules may ask of the inventory. Everything happens in the caller's transaction; nothing here commits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession


class UnknownProductError(Exception):
    """Nobody sells this."""

    def __init__(self, sku: str) -> None:
        super().__init__(f"there is no product {sku!r}")


class OutOfStockError(Exception):
    """There is not enough of it left."""

    def __init__(self, sku: str, wanted: int, available: int) -> None:
        super().__init__(f"{wanted} × {sku!r} wanted, {available} left")


@dataclass(frozen=True, slots=True, order=True)
class ReservedLine:
    """A product taken out of the stock, at the price of that moment (whole dong)."""

    sku: str
    quantity: int
    unit_price: int
    weight_grams: int


class Inventory(Protocol):
    """Stock that is taken for an order, and given back at most once."""

    async def reserve(self, tx: AsyncSession, order_id: UUID, wanted: Mapping[str, int]) -> tuple[ReservedLine, ...]:
        """Take `wanted` (quantity by sku) out of the stock, or raise and leave the transaction to be rolled back."""
        ...

    async def reserved(self, tx: AsyncSession, order_id: UUID) -> tuple[ReservedLine, ...]:
        """What is held for the order now."""
        ...

    async def release(self, tx: AsyncSession, order_id: UUID) -> int:
        """Give back what is held for the order; returns the number of pieces, 0 when that was done before."""
        ...
