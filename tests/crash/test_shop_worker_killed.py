"""A worker killed by SIGKILL in the middle of each of the shop's jobs: the next one finishes it, and the effect counts once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

from sqlalchemy import text

from shop.loyalty.points import points_of
from shop.providers.process import ProviderProcess
from tests.crash.shop_processes import Workers
from tests.integration.shop.world import CUSTOMER, World
from tests.waiting import until

PATIENCE_SECONDS = 40.0

JOBS_PER_ORDER = 5
"""Four deliveries, and the child that ships the only parcel."""


async def _until_all_is_settled(world: World) -> None:
    async def settled() -> bool:
        counted = text("SELECT count(*) FILTER (WHERE outcome = 'done') FROM homing.deliveries")
        async with world.engine.connect() as connection:
            return int((await connection.execute(counted)).scalar_one()) == JOBS_PER_ORDER

    await until(settled, PATIENCE_SECONDS, "all deliveries are done, and the child")


async def _killed_while_held(world: World, workers: Workers, partner: ProviderProcess, operation: str) -> UUID:
    """Place an order; kill the worker when the partner has done what it was asked and not said so; let another one finish."""
    partner.control(hang_after_effect=1, only=[operation])
    worker = workers.start()
    order_id = await world.place()
    await asyncio.to_thread(partner.wait_until_held, 1, PATIENCE_SECONDS)
    worker.kill()
    partner.release()
    workers.start()
    await _until_all_is_settled(world)
    return order_id


async def _money_and_parcel_and_points_once(world: World, order_id: UUID) -> None:
    assert world.hold()["captures"] == 1
    assert world.keys("capture") == {f"capture-{order_id}": 1}
    assert len(world.partners.carrier.ledger()["shipments"]) == 1
    assert len(await world.rows("shipments")) == 1
    async with world.sessions() as db:
        assert await points_of(db, CUSTOMER) == 25
    assert await world.topics() == ["order.placed", "payment.captured"]


async def test_killed_while_capturing_captures_once(world: World, workers: Workers) -> None:
    """The money was taken and nobody wrote it down: it is taken once, and the order goes on."""
    order_id = await _killed_while_held(world, workers, world.partners.gateway, "capture")
    await _money_and_parcel_and_points_once(world, order_id)
    assert len(world.partners.mailbox.ledger()["messages"]) >= 2


async def test_killed_while_shipping_ships_once(world: World, workers: Workers) -> None:
    """The parcel was handed over and nobody wrote it down: there is one parcel, and the invoice that waits for it is sent once."""
    order_id = await _killed_while_held(world, workers, world.partners.carrier, "ship")
    await _money_and_parcel_and_points_once(world, order_id)
    sent = Counter(message["idempotencyKey"] for message in world.partners.mailbox.ledger()["messages"])
    assert sent[f"invoice-{order_id}"] == 1


async def test_killed_while_sending_sends_once_or_twice(world: World, workers: Workers) -> None:
    """The e-mail was taken and nobody wrote it down: it arrives again, under the same key, and never not at all."""
    order_id = await _killed_while_held(world, workers, world.partners.mailbox, "deliver")
    await _money_and_parcel_and_points_once(world, order_id)
    messages = world.partners.mailbox.ledger()["messages"]
    assert len(messages) in (2, 3)
    kinds = {f"{kind}-{order_id}" for kind in ("order-confirmation", "invoice")}
    assert {message["idempotencyKey"] for message in messages} == kinds
    assert len(await world.rows("emails")) == 2


async def _killed_while_locked(
    world: World, workers: Workers, lock: str, blocked: Callable[[], Awaitable[bool]]
) -> UUID:
    """Hold a lock that the handler needs, kill the worker that waits for it, and let another one finish."""
    async with world.engine.connect() as connection:
        await connection.execute(text(lock))
        worker = workers.start()
        order_id = await world.place()
        await until(blocked, PATIENCE_SECONDS, "a handler waits for the lock")
        worker.kill()
    workers.start()
    await _until_all_is_settled(world)
    return order_id


async def test_killed_while_awarding_points_awards_once(world: World, workers: Workers) -> None:
    """The delivery was settled and the points were being added, in one transaction: it dies as a whole and is done again once."""

    async def blocked() -> bool:
        waiting = text(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'shop.loyalty_accounts'::regclass)"
        )
        async with world.engine.connect() as connection:
            return bool((await connection.execute(waiting)).scalar_one())

    lock = "LOCK TABLE shop.loyalty_accounts IN EXCLUSIVE MODE"
    order_id = await _killed_while_locked(world, workers, lock, blocked)
    await _money_and_parcel_and_points_once(world, order_id)


async def test_a_cancelled_order_is_voided_by_the_worker(world: World, workers: Workers) -> None:
    """Cancelled before any worker ran: the void job lets the money go, the capture job dies with the reason, nothing ships."""
    order_id = await world.place()
    await world.orders.cancel(order_id)
    workers.start()

    async def outcomes() -> bool:
        found = text("SELECT consumer, outcome FROM homing.deliveries WHERE outcome IS NOT NULL ORDER BY consumer")
        async with world.engine.connect() as connection:
            return {row.consumer: row.outcome for row in await connection.execute(found)} == {
                "notifications.confirm-order": "done",
                "payments.capture-payment": "dead",
                "payments.void-authorization": "done",
            }

    await until(outcomes, PATIENCE_SECONDS, "the three deliveries of a cancelled order are settled")
    assert (world.hold()["captures"], world.hold()["voids"]) == (0, 1)
    assert (await world.row("payments"))["status"] == "voided"
    assert world.partners.carrier.ledger()["shipments"] == []
