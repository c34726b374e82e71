"""The customers: they order over HTTP, and ask again with the same key until they have an answer."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

import httpx

from shop.orders.wish import order_id_for
from shop.trial.goods import GOODS
from shop.trial.options import Trial

ASK_AGAIN = (409, 503)
"""Answers that mean: nothing is decided, ask again with the same key."""


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


def purchases(trial: Trial) -> list[Purchase]:
    """The orders of this trial: the same goods for the same seed."""
    dice = trial.dice("goods")
    return [_purchase(trial, number, dice.choice(list(GOODS)), dice.randint(1, 3)) for number in range(trial.orders)]


@dataclass(kw_only=True)
class Customers:
    """Everybody who orders. `find_shop` names an API that takes orders just now, or none; it is asked before each request.

    `over_seconds`: the time that the rush is spread over, so that things break in the middle of it and not after it.
    """

    find_shop: Callable[[], str | None]
    over_seconds: float = 15.0
    at_once: int = 8
    patience_seconds: float = 60.0
    request_seconds: float = 60.0
    pause_seconds: float = 0.5
    placed: int = 0
    asked_again: int = 0
    gave_up: list[str] = field(default_factory=list)
    _turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.at_once)

    async def order_everything(self, wanted: Sequence[Purchase], on_placed: Callable[[], object]) -> None:
        """Place all orders and call `on_placed` for each that the shop accepted; at the end a `CustomerLostError` names who gave up."""
        start = asyncio.get_running_loop().time()
        spacing_seconds = self.over_seconds / len(wanted)
        async with (
            httpx.AsyncClient(timeout=self.request_seconds, trust_env=False) as client,
            asyncio.TaskGroup() as crowd,
        ):
            for number, purchase in enumerate(wanted):
                crowd.create_task(self._shop(client, purchase, start + number * spacing_seconds, on_placed))
        if self.gave_up:
            raise CustomerLostError("; ".join(self.gave_up))

    async def _shop(
        self, client: httpx.AsyncClient, purchase: Purchase, at: float, on_placed: Callable[[], object]
    ) -> None:
        await asyncio.sleep(at - asyncio.get_running_loop().time())
        try:
            async with self._turns:
                await self._order(client, purchase)
        except CustomerLostError as error:
            self.gave_up.append(str(error))
        else:
            self.placed += 1
            on_placed()

    async def _order(self, client: httpx.AsyncClient, purchase: Purchase) -> None:
        """Order once, however often it takes to hear so: a broken connection means "ask again" too."""
        deadline = asyncio.get_running_loop().time() + self.patience_seconds
        while True:
            accepted, answer = await self._ask(client, purchase)
            if accepted:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise CustomerLostError(f"order {purchase.key} was not accepted: {answer}")
            self.asked_again += 1
            await asyncio.sleep(self.pause_seconds)

    async def _ask(self, client: httpx.AsyncClient, purchase: Purchase) -> tuple[bool, str]:
        """Whether the order is placed, else what was heard instead; a refusal for good raises."""
        shop = self.find_shop()
        if shop is None:
            return False, "the shop is closed"
        headers = {"Idempotency-Key": purchase.key}
        try:
            response = await client.post(f"{shop}/orders", json=purchase.body, headers=headers)
        except httpx.TransportError as error:
            return False, repr(error)
        answer = f"HTTP {response.status_code}: {response.text}"
        if not response.is_success and response.status_code not in ASK_AGAIN:
            raise CustomerLostError(f"order {purchase.key} was not accepted: {answer}")
        return response.is_success, answer


def _purchase(trial: Trial, number: int, sku: str, quantity: int) -> Purchase:
    key = f"trial-{trial.run}-{number}"
    customer_id = uuid5(order_id_for(key), "customer")
    body = {
        "customerId": str(customer_id),
        "email": f"customer-{number}@{trial.run}.example",
        "address": f"{number + 1} Le Loi, Hue",
        "lines": [{"sku": sku, "quantity": quantity}],
    }
    return Purchase(key, body, customer_id)
