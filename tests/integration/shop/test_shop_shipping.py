"""Shipments: one per parcel, though the carrier knows no idempotency keys."""

import asyncio
from uuid import UUID, uuid4

import pytest

from homing import PermanentError, Throttled, Unauthorized
from homing.http import TransientHTTPError
from shop.orders.port import Parcel
from shop.orders.reader import OrderReader
from shop.outbound import Partner, open_client
from shop.shipping.carrier import HttpCarrier
from shop.shipping.service import ShippingService
from tests.integration.shop.world import World


async def _ship_as_if_nobody_had_looked(world: World, order_id: UUID) -> str:
    """Ship with a carrier whose look-up shows nothing: two runs that both looked before either created."""

    class Blind(HttpCarrier):
        async def find(self, reference: str) -> str | None:
            self.asked = getattr(self, "asked", 0) + 1
            return None if self.asked == 1 else await super().find(reference)

    async with open_client(world.settings.carrier_url, 5, {"X-Api-Key": "k"}) as client:
        carrier = Blind(Partner("carrier", client, 5))
        return await ShippingService(world.sessions, orders=OrderReader(world.sessions), carrier=carrier).ship(
            order_id, 1
        )


async def test_a_shipment_is_created_and_recorded(world: World) -> None:
    """The parcel's address and weight reach the carrier; its number is ours; the second run asks nobody."""
    order_id = await world.place(quantity=2)
    number = await world.shipping.ship(order_id, 1)
    requests = world.partners.carrier.ledger()["totals"]["requests"]
    assert await world.shipping.ship(order_id, 1) == number
    ledger = world.partners.carrier.ledger()
    (parcel,) = ledger["shipments"]
    assert parcel["reference"] == f"{order_id}-1"
    assert parcel["trackingNumber"] == number
    assert parcel["weightGrams"] == 6_000
    assert parcel["address"] == "1 Le Loi, Hue"
    assert ledger["totals"]["requests"] == requests
    assert (await world.row("shipments"))["tracking_number"] == number


@pytest.mark.parametrize("how", ["error", "cut"])
async def test_dying_between_create_and_record_ships_once(world: World, how: str) -> None:
    """The carrier took the parcel and the run failed before it could record: the next run looks it up."""
    order_id = await world.place()
    world.partners.carrier.control(fail_after_effect=1, fail_with=how, only=["ship"])
    with pytest.raises(TransientHTTPError):
        await world.shipping.ship(order_id, 1)
    await world.shipping.ship(order_id, 1)
    assert len(world.partners.carrier.ledger()["shipments"]) == 1
    assert len(await world.rows("shipments")) == 1


async def test_a_reference_that_is_taken_counts_as_success(world: World) -> None:
    """A run that looked too early gets 409 from the carrier, looks again, and records the number that is there."""
    order_id = await world.place()
    number = await world.carrier.create(f"{order_id}-1", Parcel("1 Le Loi, Hue", 3_000))
    assert await _ship_as_if_nobody_had_looked(world, order_id) == number
    assert (await world.row("shipments"))["tracking_number"] == number


async def test_runs_in_parallel_ship_once(world: World) -> None:
    """Runs that overlap at the carrier end with one parcel, one row and one number."""
    order_id = await world.place()
    world.partners.carrier.control(latency_ms=50)
    numbers = await asyncio.gather(*(world.shipping.ship(order_id, 1) for _ in range(4)))
    assert len(set(numbers)) == 1
    assert len(world.partners.carrier.ledger()["shipments"]) == 1
    assert len(await world.rows("shipments")) == 1


async def test_a_carrier_that_is_too_busy_throttles(world: World) -> None:
    """429 becomes Throttled with the carrier's own Retry-After."""
    order_id = await world.place()
    world.partners.carrier.control(throttle=1)
    with pytest.raises(Throttled) as throttled:  # the look-up passes, the creation is one too many
        await world.shipping.ship(order_id, 1)
    assert throttled.value.delay_seconds >= 1
    assert world.partners.carrier.ledger()["shipments"] == []


async def test_a_wrong_api_key_is_unauthorized(world: World) -> None:
    """401 is permanent and loud."""
    order_id = await world.place()
    world.partners.carrier.control(refuse=1, refuse_status=401)
    with pytest.raises(Unauthorized):
        await world.shipping.ship(order_id, 1)


async def test_a_carrier_that_hangs_is_given_up(hasty_world: World) -> None:
    """A carrier that took the parcel and never answers costs the time-out; the next run finds the parcel."""
    order_id = await hasty_world.place()
    hasty_world.partners.carrier.control(hang_after_effect=1, only=["ship"])
    with pytest.raises(TransientHTTPError, match="no answer within"):
        await hasty_world.shipping.ship(order_id, 1)
    hasty_world.partners.carrier.release()
    await hasty_world.shipping.ship(order_id, 1)
    assert len(hasty_world.partners.carrier.ledger()["shipments"]) == 1


async def test_an_order_that_does_not_exist_is_permanent(world: World) -> None:
    """Nothing can be shipped for an order that is not there."""
    with pytest.raises(PermanentError, match=r"there is no parcel 1 of order .*, it has 0"):
        await world.shipping.ship(uuid4(), 1)


async def test_the_parcels_of_an_order_are_read_through_the_port(world: World) -> None:
    """Shipping sees what orders show, and nothing else of them: full parcels, and one with the rest."""
    order_id, large = await world.place(quantity=3), await world.place(quantity=7)
    reader = OrderReader(world.sessions)
    assert await reader.parcels_of(order_id) == (Parcel("1 Le Loi, Hue", 9_000),)
    assert [parcel.weight_grams for parcel in await reader.parcels_of(large)] == [10_000, 10_000, 1_000]
    assert await reader.parcels_of(uuid4()) == ()


async def test_each_parcel_is_a_shipment_of_its_own(world: World) -> None:
    """Two parcels of an order have two numbers at the carrier and two rows here; a third one is not there to ship."""
    order_id = await world.place(quantity=4)
    numbers = [await world.shipping.ship(order_id, number) for number in (1, 2, 2)]
    assert numbers[1] == numbers[2] != numbers[0]
    assert [parcel["weightGrams"] for parcel in world.partners.carrier.ledger()["shipments"]] == [10_000, 2_000]
    assert len(await world.rows("shipments")) == 2
    with pytest.raises(PermanentError, match="there is no parcel 3"):
        await world.shipping.ship(order_id, 3)
