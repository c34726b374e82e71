"""One partner that hangs holds up its own queue and nothing else."""

import asyncio
import logging
import os
import time
from statistics import median

from sqlalchemy import text

from shop.inventory.stock import Stock
from tests.crash.shop_processes import Workers
from tests.integration.shop.world import PRICE, SKU, World
from tests.waiting import until

log = logging.getLogger(__name__)

ROUNDS = 3
ORDERS_PER_ROUND = 3
SHIPPING_SLOTS = 4
PATIENCE_SECONDS = 60.0
SLOW = os.environ.get("HOMING_SLOW") == "1"
"""Let the carrier hang for a whole minute, on a machine that does nothing else, and take twice the usual time at its word."""

HANG_SECONDS = 60.0 if SLOW else 0.0
"""How long the carrier hangs at least, while orders come."""

FLOOR_SECONDS = 0.0 if SLOW else 5.0
"""What a busy machine may add to a median of some tens of milliseconds, besides the factor of two; a slot shared with the carrier costs ten seconds."""

LATENCIES = text(
    "SELECT extract(epoch FROM d.settled_at - o.created_at) FROM homing.deliveries d"
    " JOIN homing.outbox_events o ON o.id = d.event_id WHERE d.consumer = :consumer AND d.outcome = 'done'"
    " ORDER BY o.created_at"
)
CAPTURE = "payments.capture-payment"
EMAIL = "notifications.confirm-order"


async def latencies(world: World, consumer: str) -> list[float]:
    """How long every job of a consumer took from the commit that caused it to its settled delivery, in seconds."""
    async with world.engine.connect() as connection:
        return [float(row[0]) for row in await connection.execute(LATENCIES, {"consumer": consumer})]


async def place_and_wait(world: World, already: int) -> int:
    """Place a few orders at once and wait until each has its money and its e-mail; how many orders there are now."""
    await asyncio.gather(*(world.place() for _ in range(ORDERS_PER_ROUND)))
    there = already + ORDERS_PER_ROUND

    async def served() -> bool:
        return all([len(await latencies(world, consumer)) == there for consumer in (CAPTURE, EMAIL)])

    await until(served, PATIENCE_SECONDS, f"{there} orders are captured and confirmed")
    return there


async def moment(at: float) -> None:
    """Wait until then (monotonic)."""
    await until(lambda: time.monotonic() >= at, what="time passes")


async def test_a_carrier_that_hangs_leaves_capture_and_email_as_fast_as_they_were(
    world: World, workers: Workers
) -> None:
    """With every shipping slot stuck in a call and more orders behind them, the medians stay far from the ten seconds of a call that hangs."""
    async with world.sessions.begin() as tx:
        await Stock().put_on_sale(tx, SKU, unit_price=PRICE, weight_grams=3_000, pieces=1000)
    carrier = world.partners.carrier
    carrier.control(throttle=1000)
    workers.start(SHOP_SHIPPING_RATE="1000", SHOP_SHIPPING_CONCURRENCY=str(SHIPPING_SLOTS))
    placed = warm = await place_and_wait(world, 0)  # the first ones pay for connections and do not count
    for _ in range(ROUNDS):
        placed = await place_and_wait(world, placed)
    healthy = placed
    carrier.control(throttle=1000, hang=True)
    for _ in range(2):
        placed = await place_and_wait(world, placed)
    await asyncio.to_thread(carrier.wait_until_held, SHIPPING_SLOTS)
    stuck = placed
    hung, rounds = time.monotonic(), 0
    while rounds < ROUNDS or time.monotonic() - hung < HANG_SECONDS:
        placed, rounds = await place_and_wait(world, placed), rounds + 1
        await moment(hung + rounds * HANG_SECONDS / 60)  # a few orders a second
    for consumer in (CAPTURE, EMAIL):
        seconds = await latencies(world, consumer)
        before, during = median(seconds[warm:healthy]), median(seconds[stuck:])
        seen = f"{consumer}: {before:.3f} s before, {during:.3f} s in {time.monotonic() - hung:.0f} s without a carrier"
        log.info(seen)
        assert during <= 2 * before + FLOOR_SECONDS, seen
    assert len(await world.rows("shipments")) <= healthy
    carrier.control(throttle=1000, hang=False)
    carrier.release()

    async def shipped() -> bool:
        return len(await world.rows("shipments")) == placed

    await until(shipped, PATIENCE_SECONDS, "every order is shipped once the carrier answers again")
