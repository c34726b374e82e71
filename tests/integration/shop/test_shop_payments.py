"""Capturing: once, whatever dies in between; and the four reasons not to."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from homing import PermanentError
from homing.http import TransientHTTPError
from shop.payments.gateway import HttpGateway
from shop.payments.port import Hold
from shop.payments.service import PaymentsService
from tests.integration.shop.world import CUSTOMER, PRICE, World


@dataclass
class Unreachable:
    """The real gateway behind a line that fails before each first call; notes the keys that were to be sent."""

    gateway: HttpGateway
    keys: list[str] = field(default_factory=list)

    async def authorize(self, *, reference: str, amount: int, idempotency_key: str) -> Hold:
        self._note(idempotency_key)
        return await self.gateway.authorize(reference=reference, amount=amount, idempotency_key=idempotency_key)

    async def find(self, reference: str) -> list[Hold]:
        return await self.gateway.find(reference)

    async def look_up(self, authorization_id: str) -> Hold:
        return await self.gateway.look_up(authorization_id)

    async def capture(self, authorization_id: str, amount: int, *, idempotency_key: str) -> str:
        self._note(idempotency_key)
        return await self.gateway.capture(authorization_id, amount, idempotency_key=idempotency_key)

    async def void(self, authorization_id: str, *, idempotency_key: str) -> Hold:
        self._note(idempotency_key)
        return await self.gateway.void(authorization_id, idempotency_key=idempotency_key)

    def _note(self, key: str) -> None:
        self.keys.append(key)
        if len(self.keys) == 1:
            raise TransientHTTPError("the line is down")


async def test_a_capture_records_its_event(world: World) -> None:
    """The money is taken, the row says so, and `payment.captured` carries order, customer and amount."""
    order_id = await world.place()
    capture_id = await world.payments.capture_for_order(order_id)
    assert world.hold()["captureId"] == capture_id
    assert (await world.row("payments"))["capture_id"] == capture_id
    captured = (await world.rows("events"))[-1]
    assert captured["topic"] == "payment.captured"
    assert captured["payload"] == {"orderId": str(order_id), "customerId": str(CUSTOMER), "amount": PRICE}


@pytest.mark.parametrize("how", ["error", "cut"])
async def test_dying_between_capture_and_write_captures_once(world: World, how: str) -> None:
    """The gateway took the money and the run failed before it could write: the next run asks, finds it, and only writes."""
    order_id = await world.place()
    world.partners.gateway.control(fail_after_effect=1, fail_with=how, only=["capture"])
    with pytest.raises(TransientHTTPError):
        await world.payments.capture_for_order(order_id)
    assert (await world.row("payments"))["status"] == "authorized"
    await world.payments.capture_for_order(order_id)
    assert (await world.row("payments"))["status"] == "captured"
    assert world.hold()["captures"] == 1
    assert world.keys("capture") == {f"capture-{order_id}": 1}
    assert await world.topics() == ["order.placed", "payment.captured"]


async def test_a_gateway_that_hangs_after_the_capture_captures_once(hasty_world: World) -> None:
    """The money is taken and no answer comes: the time-out ends the run, and the next one finds the capture by asking."""
    order_id = await hasty_world.place()
    hasty_world.partners.gateway.control(hang_after_effect=1, only=["capture"])
    with pytest.raises(TransientHTTPError, match="no answer within"):
        await hasty_world.payments.capture_for_order(order_id)
    hasty_world.partners.gateway.release()
    await hasty_world.payments.capture_for_order(order_id)
    assert hasty_world.hold()["captures"] == 1
    assert hasty_world.keys("capture") == {f"capture-{order_id}": 1}


async def test_a_write_that_fails_after_the_capture_is_made_up_for(world: World) -> None:
    """The database refuses the last step: nothing of it stays, and the next run writes status and event together."""
    order_id = await world.place()
    async with world.engine.begin() as connection:
        await connection.execute(text("ALTER TABLE homing.outbox_events ADD CHECK (topic <> 'payment.captured')"))
    with pytest.raises(Exception, match="outbox_events"):
        await world.payments.capture_for_order(order_id)
    assert (await world.row("payments"))["status"] == "authorized"
    async with world.engine.begin() as connection:
        await connection.execute(text("ALTER TABLE homing.outbox_events DROP CONSTRAINT outbox_events_topic_check1"))
    await world.payments.capture_for_order(order_id)
    assert world.hold()["captures"] == 1
    assert await world.topics() == ["order.placed", "payment.captured"]


async def test_every_run_sends_the_same_key(world: World) -> None:
    """A first run whose call never arrived and the second one use one key, made from the order, for capture and for void."""
    for act in ("capture", "void"):
        order_id = await world.place()
        line = Unreachable(world.http_gateway)
        service = PaymentsService(world.sessions, line)
        if act == "void":
            await world.orders.cancel(order_id)
        run = service.capture_for_order if act == "capture" else service.void_for_order
        with pytest.raises(TransientHTTPError):
            await run(order_id)
        await run(order_id)
        assert line.keys == [f"{act}-{order_id}"] * 2


async def test_a_forgotten_key_does_not_capture_again(world: World) -> None:
    """A run redriven after a week, long after the gateway forgot the key, finds the capture by asking."""
    order_id = await world.place()
    world.partners.gateway.control(fail_after_effect=1, only=["capture"])
    with pytest.raises(TransientHTTPError):
        await world.payments.capture_for_order(order_id)
    world.partners.gateway.advance(timedelta(days=2))
    await world.payments.capture_for_order(order_id)
    assert world.hold()["captures"] == 1


async def test_two_captures_in_parallel_make_one_event(world: World) -> None:
    """Runs that overlap at the gateway take the money once, and one of them records it."""
    order_id = await world.place()
    world.partners.gateway.control(latency_ms=100)
    runs = [world.payments.capture_for_order(order_id) for _ in range(4)]
    results = await asyncio.gather(*runs, return_exceptions=True)
    assert all(isinstance(result, str | TransientHTTPError) for result in results)
    assert any(isinstance(result, str) for result in results)
    capture_id = await world.payments.capture_for_order(order_id)
    assert {result for result in results if isinstance(result, str)} == {capture_id}
    assert world.hold()["captures"] == 1
    assert await world.topics() == ["order.placed", "payment.captured"]


async def test_two_runs_that_both_reached_the_write_make_one_event(world: World) -> None:
    """Both runs hold a capture id before either writes: compare-and-set lets one of them record the event."""
    order_id = await world.place()
    barrier = asyncio.Barrier(2)

    @dataclass
    class Together(Unreachable):
        async def capture(self, authorization_id: str, amount: int, *, idempotency_key: str) -> str:
            capture_id = f"cap-of-{authorization_id}"
            async with barrier:
                return capture_id

    service = PaymentsService(world.sessions, Together(world.http_gateway))
    results = await asyncio.gather(*(service.capture_for_order(order_id) for _ in range(2)))
    assert results[0] == results[1]
    assert await world.topics() == ["order.placed", "payment.captured"]


async def test_no_payment_is_permanent(world: World) -> None:
    """An order that nobody paid for cannot be captured, however often."""
    with pytest.raises(PermanentError, match="no payment for order"):
        await world.payments.capture_for_order(uuid4())


async def test_a_wrong_status_is_permanent(world: World) -> None:
    """What was decided otherwise is not captured."""
    order_id = await world.place()
    await world.orders.cancel(order_id)
    with pytest.raises(PermanentError, match="is voiding: it is not to be captured"):
        await world.payments.capture_for_order(order_id)
    assert world.hold()["captures"] == 0


async def test_a_hold_that_was_voided_elsewhere_is_permanent(world: World) -> None:
    """Somebody let the money go at the gateway's own desk."""
    order_id = await world.place()
    await world.http_gateway.void(world.hold()["id"], idempotency_key="by-hand")
    with pytest.raises(PermanentError, match=r"authorization .* is voided"):
        await world.payments.capture_for_order(order_id)


async def test_an_expired_hold_is_permanent(world: World) -> None:
    """The gateway gave the money back after a week."""
    order_id = await world.place()
    world.partners.gateway.advance(timedelta(days=8))
    with pytest.raises(PermanentError, match=r"authorization .* is expired"):
        await world.payments.capture_for_order(order_id)
    assert await world.topics() == ["order.placed"]
