"""Saving an order: the row and its events in one commit, and a save that was rolled back can be repeated."""

from uuid import uuid4

from homing import Event
from shop.database import Sessions
from shop.orders.order import Line, Order
from shop.orders.repository import OrderRepository
from tests.integration.shop.world import CUSTOMER, World


def _order() -> Order:
    return Order.place(
        id=uuid4(),
        customer_id=CUSTOMER,
        email="lan@customers.example",
        address="1 Le Loi, Hue",
        lines=[Line("rice-cooker", 2, 250_000)],
        weight_grams=6_000,
    )


async def _save_and_roll_back(sessions: Sessions, order: Order) -> None:
    async with sessions() as tx:
        await OrderRepository().save(tx, order)
        await tx.rollback()


async def _recorded_ids(world: World) -> list[str]:
    async with world.engine.connect() as connection:
        found = await connection.exec_driver_sql("SELECT id::text FROM homing.outbox_events ORDER BY id")
        return list(found.scalars())


def _ids(events: tuple[Event, ...]) -> list[str]:
    return [str(event.event_id) for event in events]


async def test_a_save_that_was_rolled_back_and_repeated_keeps_its_events(world: World) -> None:
    """The first save leaves nothing; the second, of the same object, records the same events under the same ids."""
    order = _order()
    events = _ids(order.pull_events())
    await _save_and_roll_back(world.sessions, order)
    assert await _recorded_ids(world) == []
    assert await world.rows("orders") == []
    async with world.sessions.begin() as tx:
        await OrderRepository().save(tx, order)
    assert await _recorded_ids(world) == events
    assert await world.topics() == ["order.placed"]


async def test_events_are_recorded_once_however_often_the_order_is_saved(world: World) -> None:
    """Saved twice before anybody said `saved`, an event is still one row."""
    order = _order()
    for _ in range(2):
        async with world.sessions.begin() as tx:
            await OrderRepository().save(tx, order)
    assert await _recorded_ids(world) == _ids(order.pull_events())


async def test_an_order_comes_back_as_it_was_saved(world: World) -> None:
    """Reading gives the saved order, without events: those are the outbox's."""
    order = _order()
    async with world.sessions.begin() as tx:
        await OrderRepository().save(tx, order)
    async with world.sessions() as db:
        assert await OrderRepository().find(db, order.id) == order.saved()


async def test_a_cancelled_order_records_both_of_its_events(world: World) -> None:
    """Placed and cancelled before the first save, an order tells both."""
    async with world.sessions.begin() as tx:
        await OrderRepository().save(tx, _order().cancel())
    assert sorted(await world.topics()) == ["order.cancelled", "order.placed"]
    assert (await world.row("orders"))["cancelled_at"] is not None
