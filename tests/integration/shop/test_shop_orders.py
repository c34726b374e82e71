"""Placing orders: what is written together, and what the idempotency key promises."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from shop.inventory.port import OutOfStockError, UnknownProductError
from shop.orders.errors import PaymentRefusedError, PaymentUnavailableError
from shop.orders.wish import order_id_for
from tests.integration.shop.world import CUSTOMER, PIECES, PRICE, SKU, World, wish


def _body(**changes: Any) -> dict[str, Any]:
    return {**wish().model_dump(mode="json", by_alias=True), **changes}


async def _post(api: httpx.AsyncClient, key: str | None, body: dict[str, Any] | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await api.post("/orders", json=_body() if body is None else body, headers=headers)


async def test_an_order_is_saved_with_its_event_its_payment_and_its_stock(world: World) -> None:
    """One POST leaves one order, one hold, one event, and one piece less to sell."""
    async with world.api() as api:
        answer = await _post(api, "first")
    assert answer.status_code == 201
    order_id = answer.json()["id"]
    assert answer.json() == {
        "id": order_id,
        "customerId": str(CUSTOMER),
        "status": "placed",
        "payment": "authorized",
        "total": PRICE,
    }
    assert answer.headers["location"] == f"/orders/{order_id}"
    assert (await world.row("events"))["payload"] == {
        "orderId": order_id,
        "customerId": str(CUSTOMER),
        "total": PRICE,
    }
    assert (await world.row("payments"))["status"] == "authorized"
    assert world.hold()["amount"] == PRICE
    assert await world.left() == PIECES - 1


async def test_the_trace_of_the_request_is_recorded_with_the_event(world: World) -> None:
    """X-Request-ID of the POST is the trace id that the jobs of this order will log."""
    async with world.api() as api:
        await api.post("/orders", json=_body(), headers={"Idempotency-Key": "traced", "X-Request-ID": "req-77"})
    async with world.engine.connect() as connection:
        headers = (await connection.exec_driver_sql("SELECT headers FROM homing.outbox_events")).scalar_one()
    assert headers["traceId"] == "req-77"


async def test_the_same_key_and_body_give_the_same_order(world: World) -> None:
    """A repeated POST answers 200 with the first order, says that it is a replay, and asks the gateway for nothing."""
    async with world.api() as api:
        first = await _post(api, "again")
        effects = await world.effects()
        second = await _post(api, "again")
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == first.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert await world.effects() == effects
    assert world.keys("authorize") == {f"authorize-{first.json()['id']}": 1}


async def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    """A key that said something else before is 422, and changes nothing."""
    async with world.api() as api:
        await _post(api, "mixed-up")
        effects = await world.effects()
        second = await _post(api, "mixed-up", _body(lines=[{"sku": SKU, "quantity": 2}]))
    assert second.status_code == 422
    assert second.headers["content-type"] == "application/problem+json"
    assert second.json()["type"] == "urn:shop:idempotency-key-reused"
    assert await world.effects() == effects


async def test_a_key_whose_first_request_is_in_flight_has_to_wait(world: World) -> None:
    """While the gateway keeps the first request, the second gets 409 with Retry-After; afterwards both mean one order."""
    gateway = world.partners.gateway
    gateway.control(hang_after_effect=1, only=["authorize"])
    async with world.api() as api:
        first = asyncio.ensure_future(_post(api, "slow"))
        await asyncio.to_thread(gateway.wait_until_held)
        meanwhile = await _post(api, "slow")
        gateway.release()
        assert (await first).status_code == 201
        assert (await _post(api, "slow")).status_code == 200
    assert meanwhile.status_code == 409
    assert meanwhile.headers["retry-after"] == "1"
    assert len(await world.rows("orders")) == 1
    assert sum(world.keys("authorize").values()) == 1


async def test_ten_requests_with_one_key_at_once_place_one_order(world: World) -> None:
    """Whoever loses the race is told to come back; there is one order, one hold, one event."""
    async with world.api() as api:
        answers = await asyncio.gather(*(_post(api, "rush") for _ in range(10)))
    assert sorted({answer.status_code for answer in answers} - {200, 409}) == [201]
    assert [answer.status_code for answer in answers].count(201) == 1
    assert await world.topics() == ["order.placed"]
    assert world.keys("authorize") == {f"authorize-{order_id_for('rush')}": 1}
    assert await world.left() == PIECES - 1


@pytest.mark.parametrize(
    ("key", "body", "status", "named"),
    [
        (None, {}, 400, "Idempotency-Key"),
        ("", {}, 400, "Idempotency-Key"),
        ("k" * 201, {}, 400, "200"),
        ("ok", {"lines": []}, 422, "lines"),
        ("ok", {"lines": [{"sku": SKU, "quantity": 1.5}]}, 422, "quantity"),
        ("ok", {"lines": [{"sku": SKU, "quantity": 0}]}, 422, "quantity"),
        ("ok", {"lines": [{"sku": "no-such", "quantity": 1}]}, 422, "no-such"),
        ("ok", {"lines": [{"sku": SKU, "quantity": 11}]}, 409, "10 left"),
        ("ok", {"email": "lan@customers.example\nBcc: all@customers.example"}, 422, "email"),
        ("ok", {"address": "1 Le\x00Loi"}, 422, "address"),
        ("ok", {"total": 1}, 422, "total"),
    ],
)
async def test_a_wrong_request_is_a_problem_that_names_it(
    world: World, key: str | None, body: dict[str, Any], status: int, named: str
) -> None:
    """Every refusal is problem+json, names what is wrong, leaves nothing behind, and leaves the key free."""
    async with world.api() as api:
        answer = await _post(api, key, _body(**body))
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert named in answer.json()["detail"]
        assert await world.rows("checkouts") == []
        assert await world.left() == PIECES
        assert (await _post(api, "ok")).status_code == 201


async def test_an_unknown_page_is_a_problem_too(world: World) -> None:
    """404 and 405 have the same shape as every other error."""
    async with world.api() as api:
        for answer in (await api.get("/nowhere"), await api.put("/orders"), await api.get(f"/orders/{uuid4()}")):
            assert answer.status_code in (404, 405)
            assert answer.json()["status"] == answer.status_code
            assert answer.headers["content-type"] == "application/problem+json"


async def test_an_order_can_be_read_and_cancelled_over_http(world: World) -> None:
    """GET shows what POST made, and what became of it."""
    async with world.api() as api:
        placed = (await _post(api, "seen")).json()
        assert (await api.get(f"/orders/{placed['id']}")).json() == placed
        cancelled = await api.post(f"/orders/{placed['id']}/cancel")
        assert cancelled.json() == {**placed, "status": "cancelled", "payment": "voiding"}
        assert (await api.get(f"/orders/{placed['id']}")).json() == cancelled.json()


async def test_a_declined_card_ends_the_checkout_and_gives_the_stock_back(world: World) -> None:
    """The gateway's no is final for this key: the same answer again, no order, nothing held, all stock back."""
    world.partners.gateway.control(refuse=1, refuse_status=402, only=["authorize"])
    with pytest.raises(PaymentRefusedError) as first:
        await world.orders.place_order(wish(), "declined")
    with pytest.raises(PaymentRefusedError) as second:
        await world.orders.place_order(wish(), "declined")
    assert str(second.value) == str(first.value)
    assert await world.left() == PIECES
    assert await world.rows("orders") == []
    assert world.partners.gateway.ledger()["totals"]["authorizations"] == 0


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_gateway_without_an_answer_decides_nothing(world: World, status: int) -> None:
    """Trouble that is not the customer's keeps the checkout: the same key places the order once the gateway is back."""
    world.partners.gateway.control(refuse=1, refuse_status=status, only=["authorize"])
    with pytest.raises(PaymentUnavailableError):
        await world.orders.place_order(wish(), "patient")
    order_id = await world.place(key="patient")
    assert world.keys("authorize") == {f"authorize-{order_id}": 1}
    assert await world.left() == PIECES - 1


@pytest.mark.parametrize("how", ["error", "cut"])
async def test_a_hold_that_was_made_but_not_confirmed_is_found_again(world: World, how: str) -> None:
    """The gateway holds the money and fails to say so; the repeated request finds that hold and makes no second one."""
    world.partners.gateway.control(fail_after_effect=1, fail_with=how, only=["authorize"])
    with pytest.raises(PaymentUnavailableError):
        await world.orders.place_order(wish(), "unsure")
    order_id = await world.place(key="unsure")
    assert world.hold()["status"] == "authorized"
    assert world.keys("authorize") == {f"authorize-{order_id}": 1}
    assert await world.topics() == ["order.placed"]


async def test_a_hanging_gateway_is_given_up_and_leaves_nothing_twice(hasty_world: World) -> None:
    """A gateway that held the money and never answers costs the time-out; the same key then finds the hold."""
    hasty_world.partners.gateway.control(hang_after_effect=1, only=["authorize"])
    with pytest.raises(PaymentUnavailableError):
        await hasty_world.orders.place_order(wish(), "hung")
    hasty_world.partners.gateway.release()
    order_id = await hasty_world.place(key="hung")
    assert hasty_world.keys("authorize") == {f"authorize-{order_id}": 1}


async def test_stock_never_goes_below_zero(world: World) -> None:
    """Of many orders at once, exactly as many succeed as there are pieces; the others are told how many are left."""
    results = await asyncio.gather(*(world.place(quantity=3) for _ in range(5)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, OutOfStockError)]
    assert len(refused) == 2
    assert await world.left() == 1
    assert len(await world.rows("orders")) == 3


async def test_an_order_for_something_unknown_leaves_nothing(world: World) -> None:
    """A reservation that fails half-way is rolled back as a whole."""
    wanted = wish().model_copy(update={"lines": [*wish().lines, *wish(sku="zzz").lines]})
    with pytest.raises(UnknownProductError):
        await world.orders.place_order(wanted, "half")
    assert await world.left() == PIECES
    assert await world.rows("reservations") == []
