"""Cancelling before, during and after the capture: never captured and voided both, never neither."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from homing import PermanentError
from homing.http import TransientHTTPError
from shop.orders.errors import CannotCancelError, OrderNotFoundError
from tests.integration.shop.world import PIECES, World


async def _money(world: World) -> tuple[str, int, int]:
    """Our word for the payment, and what the gateway really did: captures, voids."""
    hold = world.hold()
    return (await world.row("payments"))["status"], hold["captures"], hold["voids"]


async def _capture_in_flight(world: World, order_id: UUID, knob: str) -> "asyncio.Future[str]":
    """Start a capture and return once the gateway holds it, before (`hang`) or after (`hang_after_effect`) its effect."""
    world.partners.gateway.control(**{knob: 1}, only=["capture"])
    capturing = asyncio.ensure_future(world.payments.capture_for_order(order_id))
    await asyncio.to_thread(world.partners.gateway.wait_until_held)
    return capturing


async def test_before_the_capture_the_hold_is_voided(world: World) -> None:
    """The order is cancelled, the stock is back, the void job lets the money go, and the capture job refuses."""
    order_id = await world.place(quantity=2)
    order = await world.orders.cancel(order_id)
    assert order.status == "cancelled"
    assert await world.left() == PIECES
    await world.payments.void_for_order(order_id)
    with pytest.raises(PermanentError):
        await world.payments.capture_for_order(order_id)
    assert await _money(world) == ("voided", 0, 1)
    assert await world.topics() == ["order.placed", "order.cancelled"]


async def test_cancelling_twice_gives_the_stock_back_once(world: World) -> None:
    """The second cancellation finds a cancelled order: no event, no stock, no void of its own."""
    order_id = await world.place(quantity=2)
    await world.orders.cancel(order_id)
    effects = await world.effects()
    assert (await world.orders.cancel(order_id)).status == "cancelled"
    assert await world.effects() == effects


async def test_two_cancellations_at_once_record_one_event(world: World) -> None:
    """They queue on the order's row; the second sees what the first did."""
    order_id = await world.place()
    await asyncio.gather(*(world.orders.cancel(order_id) for _ in range(5)))
    assert await world.topics() == ["order.placed", "order.cancelled"]
    assert await world.left() == PIECES


async def test_after_the_capture_the_cancellation_is_refused(world: World) -> None:
    """What is paid is not cancelled: the order stays placed, the money stays taken, the stock stays reserved."""
    order_id = await world.place()
    await world.payments.capture_for_order(order_id)
    effects = await world.effects()
    with pytest.raises(CannotCancelError):
        await world.orders.cancel(order_id)
    assert await world.effects() == effects
    assert await _money(world) == ("captured", 1, 0)


async def test_a_capture_that_arrives_after_the_void_fails(world: World) -> None:
    """The capture is on its way when order and hold are cancelled: the gateway refuses it, the money is free."""
    order_id = await world.place()
    capturing = await _capture_in_flight(world, order_id, "hang")
    await world.orders.cancel(order_id)
    await world.payments.void_for_order(order_id)
    world.partners.gateway.release()
    with pytest.raises(PermanentError, match="voided"):
        await capturing
    assert await _money(world) == ("voided", 0, 1)
    assert await world.topics() == ["order.placed", "order.cancelled"]


@pytest.mark.parametrize("void_first", [True, False])
async def test_a_capture_that_beats_the_void_becomes_a_refund(
    world: World, caplog: pytest.LogCaptureFixture, *, void_first: bool
) -> None:
    """The money is taken and not yet written down when the order is cancelled: not voided, not shipped, a refund is due."""
    order_id = await world.place()
    capturing = await _capture_in_flight(world, order_id, "hang_after_effect")
    await world.orders.cancel(order_id)
    if void_first:
        await world.payments.void_for_order(order_id)
    world.partners.gateway.release()
    await capturing
    assert await _money(world) == ("refund_due", 1, 0)
    await world.payments.void_for_order(order_id)
    assert await _money(world) == ("refund_due", 1, 0)
    assert await world.topics() == ["order.placed", "order.cancelled"]
    assert [message for message in caplog.messages if "refund" in message and str(order_id) in message]


async def test_dying_between_void_and_write_voids_once(world: World) -> None:
    """The gateway let the money go and the run failed before it could write: the next run finds that out and writes."""
    order_id = await world.place()
    await world.orders.cancel(order_id)
    world.partners.gateway.control(fail_after_effect=1, only=["void"])
    with pytest.raises(TransientHTTPError):
        await world.payments.void_for_order(order_id)
    await world.payments.void_for_order(order_id)
    assert await _money(world) == ("voided", 0, 1)
    assert world.keys("void") == {f"void-{order_id}": 1}


async def test_an_expired_hold_counts_as_let_go(world: World) -> None:
    """A void job that runs after the gateway gave the money back has nothing left to do."""
    order_id = await world.place()
    await world.orders.cancel(order_id)
    world.partners.gateway.advance(timedelta(days=8))
    await world.payments.void_for_order(order_id)
    assert await _money(world) == ("voided", 0, 0)


async def test_voiding_what_was_not_cancelled_is_refused(world: World) -> None:
    """A void job without a cancellation is somebody's mistake, and touches nothing."""
    order_id = await world.place()
    with pytest.raises(PermanentError, match="is authorized: it is not to be voided"):
        await world.payments.void_for_order(order_id)
    with pytest.raises(PermanentError, match="no payment"):
        await world.payments.void_for_order(uuid4())
    assert await _money(world) == ("authorized", 0, 0)


async def test_many_cancellations_against_captures_end_in_one_of_two_ways(world: World) -> None:
    """Whatever the order of arrival: captured and paid for, or cancelled with the money free or owed; never both, never neither."""
    order_ids = [await world.place() for _ in range(6)]
    world.partners.gateway.control(latency_ms=20)
    acts = [act(order_id) for order_id in order_ids for act in (world.payments.capture_for_order, world.orders.cancel)]
    await asyncio.gather(*acts, return_exceptions=True)
    for row in await world.rows("orders"):
        if row["status"] == "cancelled":
            await world.payments.void_for_order(row["id"])
    statuses = {row["order_id"]: row["status"] for row in await world.rows("payments")}
    for hold in world.partners.gateway.ledger()["authorizations"]:
        status = statuses[UUID(hold["reference"])]
        assert (hold["captures"], hold["voids"]) == ((0, 1) if status == "voided" else (1, 0)), status
    captured = sum(status == "captured" for status in statuses.values())
    assert (await world.topics()).count("payment.captured") == captured


async def test_an_unknown_order_cannot_be_cancelled(world: World) -> None:
    """There is nothing to cancel, and the answer says so."""
    with pytest.raises(OrderNotFoundError):
        await world.orders.cancel(uuid4())
