"""Every handler of the shop, run twice: the second run adds nothing. A handler without such a test fails this module."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Child, Children, Homing, Tick
from homing.config.settings import Settings
from homing.durations import days
from homing.ids import first_id_at
from homing.schema.statement import load
from shop.events import OrderCancelled, OrderPlaced, ParcelPacked, PaymentCaptured
from shop.jobs import app
from shop.loyalty.handlers import award_points
from shop.loyalty.points import points_of
from shop.maintenance.handlers import clean_outbox
from shop.maintenance.outbox import OutboxCleanUp
from shop.notifications.handlers import confirm_order, send_invoice
from shop.orders.reader import OrderReader
from shop.payments.handlers import capture_payment, void_authorization
from shop.shipping.handlers import create_shipment
from tests.integration.shop.world import CUSTOMER, PRICE, World

Run = Callable[[], Awaitable[None]]


async def _capture(world: World) -> Run:
    order_id = await world.place()
    event = OrderPlaced(order_id=order_id, customer_id=CUSTOMER, total=PRICE)
    return lambda: capture_payment(event, world.payments)


async def _void(world: World) -> Run:
    order_id = await world.place()
    await world.orders.cancel(order_id)
    return lambda: void_authorization(OrderCancelled(order_id=order_id), world.payments)


async def _confirm(world: World) -> Run:
    order_id = await world.place()
    event = OrderPlaced(order_id=order_id, customer_id=CUSTOMER, total=PRICE)
    return lambda: confirm_order(event, world.notifications)


async def _ship(world: World) -> Run:
    order_id = await world.place()
    event = ParcelPacked(order_id=order_id, number=1)

    async def run() -> None:
        await create_shipment(event, world.shipping)

    return run


class Shipped:
    """A flow whose parcels are all on their way."""

    async def wait_for(self, *children: Child) -> Children:
        """Each has a number."""
        return Children(values={child.key or "": f"VN-{child.key}" for child in children})

    async def children(self) -> Children:
        """Nothing was added with the job."""
        return Children()


async def _invoice(world: World) -> Run:
    order_id = await world.place()
    event = PaymentCaptured(order_id=order_id, customer_id=CUSTOMER, amount=PRICE)
    return lambda: send_invoice(event, Shipped(), world.notifications, OrderReader(world.sessions))


async def _award(world: World) -> Run:
    event = PaymentCaptured(order_id=uuid4(), customer_id=CUSTOMER, amount=PRICE)
    await _open_delivery(world, event, "loyalty.award-points")

    async def run() -> None:
        async with world.sessions.begin() as tx:
            if await _settled_now(tx, event.event_id, "loyalty.award-points"):
                await award_points(event, tx)

    return run


async def _open_delivery(world: World, event: PaymentCaptured, consumer: str) -> None:
    """What the relay does: open the delivery that the handler's transaction will settle."""
    async with world.engine.begin() as connection:
        await connection.execute(
            text("""INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, opened_at)
                    VALUES (:event_id, :consumer, 'loyalty', 'award-points', :now)"""),
            {"event_id": event.event_id, "consumer": consumer, "now": datetime.now(UTC)},
        )


async def _settled_now(tx: AsyncSession, event_id: UUID, consumer: str) -> bool:
    """What the worker does first in the handler's transaction: the library's own statement, and its own answer."""
    settle = text(load("homing.ledger", "settle").text)
    settled = await tx.execute(settle, {"event_id": event_id, "consumer": consumer, "generation": 1})
    return settled.one_or_none() is not None


async def _clean(world: World) -> Run:
    """An event that was settled eight days ago, and one of yesterday."""
    outbox = OutboxCleanUp(Homing("shop", settings=Settings(database_url=world.settings.database_url, engine="redis")))
    tick = Tick(schedule="outbox-cleanup", due_at=datetime.now(UTC))
    async with world.engine.begin() as connection:
        for age in (8, 1):
            await connection.execute(OLD_EVENT, {"age": age, "id": first_id_at(datetime.now(UTC) - days(age))})

    async def run() -> None:
        await clean_outbox(tick, outbox)

    return run


OLD_EVENT = text("""
WITH e AS (INSERT INTO homing.outbox_events (id, topic, payload, created_at, published_at)
  VALUES (:id, 'test.old', '{}', now() - make_interval(days => :age), now()) RETURNING id)
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)
SELECT id, 'test.old', 'test', 'old', 'done', now() - make_interval(days => :age) FROM e""")


async def test_a_week_of_events_is_kept(world: World) -> None:
    """The clean-up takes what is older, with its deliveries, and leaves the rest."""
    run = await _clean(world)
    await run()
    assert [event["topic"] for event in (await world.effects())["events"]] == ["test.old"]


RUN_TWICE: dict[str, Callable[[World], Awaitable[Run]]] = {
    "payments.capture-payment": _capture,
    "payments.void-authorization": _void,
    "notifications.confirm-order": _confirm,
    "notifications.send-invoice": _invoice,
    "shipping.create-shipment": _ship,
    "loyalty.award-points": _award,
    "maintenance.outbox-cleanup": _clean,
}


def test_every_handler_is_run_twice_here() -> None:
    """A handler that is added to the shop and not to this module is found by its absence."""
    app.load()
    assert {handler.consumer for handler in app.handlers} == set(RUN_TWICE)


@pytest.mark.parametrize("consumer", sorted(RUN_TWICE))
async def test_the_second_run_adds_nothing(world: World, consumer: str) -> None:
    """The first run has an effect; after the second, rows, events, money, parcels and e-mails are the same."""
    run = await RUN_TWICE[consumer](world)
    before = await world.effects()
    await run()
    once = await world.effects()
    await run()
    assert once != before
    assert await world.effects() == once


async def test_points_come_and_go_with_the_transaction(world: World) -> None:
    """The handler commits nothing itself: a rollback takes the points along, so that the next run may add them."""
    event = PaymentCaptured(order_id=uuid4(), customer_id=CUSTOMER, amount=PRICE)
    async with world.sessions() as db:
        await award_points(event, db)
        assert await points_of(db, CUSTOMER) == 25
        await db.rollback()
        assert await points_of(db, CUSTOMER) == 0


@pytest.mark.parametrize(("amounts", "points"), [([9_999], 0), ([10_000], 1), ([250_000], 25), ([9_999, 10_001], 1)])
async def test_points_add_up_per_payment(world: World, amounts: list[int], points: int) -> None:
    """Each payment is rounded down by itself, and the account holds the sum."""
    async with world.sessions.begin() as tx:
        for amount in amounts:
            await award_points(PaymentCaptured(order_id=uuid4(), customer_id=CUSTOMER, amount=amount), tx)
        assert await points_of(tx, CUSTOMER) == points
