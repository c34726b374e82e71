"""The customers: they order over HTTP, and ask again with the same key until they have an answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import httpx

from shop.demo.goods import GOODS
from shop.demo.options import Options
from shop.orders.wish import order_id_for

AT_ONCE = 8
REQUEST_SECONDS = 60.0
TRIES = 30
PAUSE_SECONDS = 0.5
LEAST_SECONDS = 15.0
"""The rush is spread over this time, so that workers die in the middle of it and not after it."""


class CustomerLostError(Exception):
    """A customer gave up."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What one customer is going to order; everything follows from the run and the number."""

    key: str
    body: dict[str, Any]
    customer_id: UUID

    @property
    def order_id(self) -> UUID:
        """The id that the order will have."""
        return order_id_for(self.key)


def purchases(options: Options) -> list[Purchase]:
    """The orders of this run: the same goods for the same seed."""
    dice = options.dice("goods")
    return [
        _purchase(options, number, dice.choice(list(GOODS)), dice.randint(1, 3)) for number in range(options.orders)
    ]


async def order_everything(url: str, wanted: list[Purchase], placed: Callable[[], None]) -> None:
    """Place all orders, eight at once, and call `placed` for each that the shop accepted."""
    turns = asyncio.Semaphore(AT_ONCE)
    start = asyncio.get_running_loop().time()
    spacing_seconds = LEAST_SECONDS / len(wanted)
    async with httpx.AsyncClient(base_url=url, timeout=REQUEST_SECONDS, trust_env=False) as client:

        async def shop(number: int, purchase: Purchase) -> None:
            await asyncio.sleep(start + number * spacing_seconds - asyncio.get_running_loop().time())
            async with turns:
                await _order(client, purchase)
            placed()

        async with asyncio.TaskGroup() as crowd:
            for number, purchase in enumerate(wanted):
                crowd.create_task(shop(number, purchase))


async def _order(client: httpx.AsyncClient, purchase: Purchase) -> None:
    """Order once, however often it takes to hear so: 409 and 503 mean "ask again", a broken connection too."""
    answer = "no answer"
    for _ in range(TRIES):
        try:
            response = await client.post("/orders", json=purchase.body, headers={"Idempotency-Key": purchase.key})
        except httpx.TransportError as error:
            answer = repr(error)
        else:
            if response.is_success:
                return
            answer = f"HTTP {response.status_code}: {response.text}"
            if response.status_code not in (409, 503):
                break
        await asyncio.sleep(PAUSE_SECONDS)
    raise CustomerLostError(f"order {purchase.key} was not accepted: {answer}")


def _purchase(options: Options, number: int, sku: str, quantity: int) -> Purchase:
    key = f"demo-{options.run}-{number}"
    customer_id = uuid5(order_id_for(key), "customer")
    body = {
        "customerId": str(customer_id),
        "email": f"customer-{number}@{options.run}.example",
        "address": f"{number + 1} Le Loi, Hue",
        "lines": [{"sku": sku, "quantity": quantity}],
    }
    return Purchase(key, body, customer_id)
