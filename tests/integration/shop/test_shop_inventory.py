"""Stock: taken in the caller's transaction, given back at most once, never below zero."""

import asyncio
from uuid import UUID, uuid4

from shop.inventory.stock import Stock
from tests.integration.shop.world import PIECES, PRICE, SKU, World

OTHER = "tea"


async def _reserve(world: World, wanted: dict[str, int]) -> UUID:
    order_id = uuid4()
    async with world.sessions.begin() as tx:
        await Stock().reserve(tx, order_id, wanted)
    return order_id


async def _release(world: World, order_id: UUID) -> int:
    async with world.sessions.begin() as tx:
        return await Stock().release(tx, order_id)


async def test_what_is_released_twice_comes_back_once(world: World) -> None:
    """The second release finds nothing that is still held."""
    order_id = await _reserve(world, {SKU: 3})
    assert await world.left() == PIECES - 3
    assert [await _release(world, order_id) for _ in range(2)] == [3, 0]
    assert await world.left() == PIECES


async def test_what_is_released_by_several_at_once_comes_back_once(world: World) -> None:
    """They queue on the stock's row; one of them gives the pieces back."""
    order_id = await _reserve(world, {SKU: 3})
    released = await asyncio.gather(*(_release(world, order_id) for _ in range(5)))
    assert sorted(released) == [0, 0, 0, 0, 3]
    assert await world.left() == PIECES


async def test_a_rolled_back_reservation_takes_nothing(world: World) -> None:
    """The inventory commits nothing itself."""
    async with world.sessions() as db:
        await Stock().reserve(db, uuid4(), {SKU: 3})
        await db.rollback()
    assert await world.left() == PIECES


async def test_a_reservation_keeps_its_price(world: World) -> None:
    """A price that changes afterwards is for the next customer."""
    order_id = await _reserve(world, {SKU: 1})
    async with world.sessions.begin() as tx:
        await Stock().put_on_sale(tx, SKU, unit_price=2 * PRICE, weight_grams=1, pieces=0)
        (line,) = await Stock().reserved(tx, order_id)
    assert line.unit_price == PRICE


async def test_orders_for_the_same_goods_in_any_order_do_not_block_each_other(world: World) -> None:
    """Rows are locked by sku, so that reservations and releases of several goods never wait in a circle."""
    async with world.sessions.begin() as tx:
        await Stock().put_on_sale(tx, OTHER, unit_price=1, weight_grams=1, pieces=100)
        await Stock().put_on_sale(tx, SKU, unit_price=PRICE, weight_grams=1, pieces=100)

    async def there_and_back(number: int) -> int:
        first, second = (SKU, OTHER) if number % 2 else (OTHER, SKU)
        return await _release(world, await _reserve(world, {first: 1, second: 1}))

    assert await asyncio.gather(*(there_and_back(number) for number in range(20))) == [2] * 20
