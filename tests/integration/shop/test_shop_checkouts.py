"""Checkouts that never became an order: what the clean-up undoes, what it leaves alone, and what comes too late."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import text

from shop.maintenance.expired import Swept
from shop.orders.errors import CheckoutExpiredError, CheckoutInProgressError, PaymentUnavailableError
from shop.orders.wish import order_id_for
from tests.integration.shop.world import PIECES, World, wish


async def _abandon(world: World, key: str) -> UUID:
    """Leave a checkout with stock reserved and money held, as a request does that dies before its commit."""
    world.partners.gateway.control(fail_after_effect=1, fail_with="cut", only=["authorize"])
    with pytest.raises(PaymentUnavailableError):
        await world.orders.place_order(wish(quantity=2), key)
    return order_id_for(key)


async def _expire(world: World) -> None:
    async with world.engine.begin() as connection:
        await connection.execute(text("UPDATE shop.checkouts SET expires_at = now(), busy_until = now()"))


async def test_an_abandoned_checkout_is_undone(world: World) -> None:
    """The hold is voided, the stock is back, no order appears; a second round finds nothing to do."""
    await _abandon(world, "gone")
    await _expire(world)
    assert await world.clean_up.release() == Swept(released=1, voided=1)
    effects = await world.effects()
    assert await world.clean_up.release() == Swept()
    assert await world.effects() == effects
    assert world.hold()["status"] == "voided"
    assert await world.left() == PIECES
    assert await world.rows("orders") == []


async def test_a_checkout_that_never_reached_the_gateway_gives_its_stock_back(world: World) -> None:
    """Without a hold there is nothing to void, and the stock still returns."""
    world.partners.gateway.control(refuse=1)
    with pytest.raises(PaymentUnavailableError):
        await world.orders.place_order(wish(), "early")
    await _expire(world)
    assert await world.clean_up.release() == Swept(released=1)
    assert await world.left() == PIECES


async def test_what_is_fresh_or_finished_is_left_alone(world: World) -> None:
    """Open checkouts keep their time; checkouts that became orders are nobody's business any more."""
    await world.place(key="done")
    await _abandon(world, "fresh")
    async with world.engine.begin() as connection:
        await connection.execute(text("UPDATE shop.checkouts SET expires_at = now() WHERE status = 'ordered'"))
    effects = await world.effects()
    assert await world.clean_up.release() == Swept()
    assert await world.effects() == effects


async def test_a_key_whose_checkout_was_undone_is_used_up(world: World) -> None:
    """The customer who comes back after the clean-up is told to start again, and gets neither stock nor hold."""
    await _abandon(world, "late")
    await _expire(world)
    await world.clean_up.release()
    effects = await world.effects()
    with pytest.raises(CheckoutExpiredError):
        await world.orders.place_order(wish(quantity=2), "late")
    assert await world.effects() == effects


async def test_a_gateway_that_fails_keeps_the_checkout_for_the_next_round(world: World) -> None:
    """Stock is not given back while the money may still be held; other checkouts do not wait; the next round finishes it."""
    for key in ("one", "two"):
        await _abandon(world, key)
    await _expire(world)
    world.partners.gateway.control(refuse=1, only=["void"])
    assert await world.clean_up.release() == Swept(released=1, voided=1, failed=1)
    assert await world.left() == PIECES - 2
    await _expire(world)
    assert await world.clean_up.release() == Swept(released=1, voided=1)
    assert await world.left() == PIECES


async def test_dying_between_void_and_release_is_made_up_for(world: World) -> None:
    """The hold is voided and the answer lost: the next round voids nothing more and gives the stock back once."""
    await _abandon(world, "half")
    await _expire(world)
    world.partners.gateway.control(fail_after_effect=1, only=["void"])
    assert await world.clean_up.release() == Swept(failed=1)
    await _expire(world)
    assert await world.clean_up.release() == Swept(released=1)
    assert world.hold()["voids"] == 1
    assert await world.left() == PIECES


async def test_several_clean_ups_at_once_undo_each_checkout_once(world: World) -> None:
    """Rounds side by side share the work: each hold is voided once, each piece of stock comes back once."""
    for number in range(4):
        await _abandon(world, f"many-{number}")
    await _expire(world)
    rounds = await asyncio.gather(*(world.clean_up.release() for _ in range(3)))
    assert sum(swept.released for swept in rounds) == 4
    assert all(hold["voids"] == 1 for hold in world.partners.gateway.ledger()["authorizations"])
    assert await world.left() == PIECES


async def test_a_request_that_outlived_its_checkout_commits_nothing(world: World) -> None:
    """A request held by the gateway until the clean-up took its checkout finds that it lost it: no order, no stock, no hold."""
    world.partners.gateway.control(hang_after_effect=1, only=["authorize"])
    placing = asyncio.ensure_future(world.orders.place_order(wish(), "outlived"))
    await asyncio.to_thread(world.partners.gateway.wait_until_held)
    await _expire(world)
    assert await world.clean_up.release() == Swept(released=1, voided=1)
    world.partners.gateway.release()
    with pytest.raises(CheckoutInProgressError):
        await placing
    assert await world.rows("orders") == []
    assert await world.topics() == []
    assert await world.left() == PIECES
    assert world.hold()["status"] == "voided"


async def test_a_request_that_lost_its_checkout_to_the_clean_up_commits_nothing(world: World) -> None:
    """While the clean-up is voiding the hold, the late request must not make an order of it, though the checkout is still open."""
    gateway = world.partners.gateway
    gateway.control(hang_after_effect=1, only=["authorize"])
    placing = asyncio.ensure_future(world.orders.place_order(wish(), "contested"))
    await asyncio.to_thread(gateway.wait_until_held)
    await _expire(world)
    gateway.control(hang=1, only=["void"])
    sweeping = asyncio.ensure_future(world.clean_up.release())
    await asyncio.to_thread(gateway.wait_until_held, 2)
    gateway.control(hang_after_effect=False)
    with pytest.raises(CheckoutInProgressError):
        await placing
    assert await world.rows("orders") == []
    gateway.release()
    assert await sweeping == Swept(released=1, voided=1)
    assert await world.left() == PIECES
