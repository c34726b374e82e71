"""The carrier's trade: one shipment per reference, a look-up, a limit per API key. In-process, over ASGI."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shop.providers.carrier import DEFAULTS, OPERATIONS, create_app
from shop.providers.controls import Controls

PARCEL = {"reference": "order-1", "address": "12 Hàng Bạc, Hà Nội", "weightGrams": 800}


class Depot:
    """A client of a carrier that runs in this process, at a time that the test decides."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.controls = Controls(DEFAULTS, OPERATIONS, monotonic=lambda: self.now)
        transport = httpx.ASGITransport(create_app(self.controls, clock=lambda: self.now))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://carrier", headers={"X-Api-Key": "shop"})

    async def ship(self, **changes: Any) -> httpx.Response:
        return await self.http.post("/shipments", json={**PARCEL, **changes})

    async def find(self, reference: str) -> httpx.Response:
        return await self.http.get("/shipments", params={"reference": reference})

    async def ledger(self) -> dict[str, Any]:
        content: dict[str, Any] = (await self.http.get("/_ledger")).json()
        return content


@pytest.fixture
async def depot() -> AsyncIterator[Depot]:
    """Provide a fresh carrier."""
    depot = Depot()
    async with depot.http:
        yield depot


async def test_a_shipment_is_found_by_its_reference(depot: Depot) -> None:
    """What was shipped is listed under its reference; another reference lists nothing."""
    shipped = await depot.ship()
    found = await depot.find("order-1")
    assert (shipped.status_code, found.status_code) == (201, 200)
    assert [shipment["trackingNumber"] for shipment in found.json()] == [shipped.json()["trackingNumber"]]
    assert (await depot.find("order-2")).json() == []
    assert (await depot.http.get("/shipments")).status_code == 400


async def test_one_reference_ships_once(depot: Depot) -> None:
    """Of several calls at once for one reference, one ships and the others get a 409."""
    depot.controls.turn({"latency_ms": 5})
    answers = await asyncio.gather(*(depot.ship() for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
    assert (await depot.ledger())["totals"]["shipments"] == 1


async def test_an_idempotency_key_means_nothing_here(depot: Depot) -> None:
    """The carrier takes no keys: the same key ships again under another reference, and 409s under the same."""
    key = {"Idempotency-Key": "k"}
    answers = [
        await depot.http.post("/shipments", json={**PARCEL, "reference": reference}, headers=key)
        for reference in ("order-1", "order-2", "order-1")
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 409]


async def test_the_eleventh_request_of_a_second_is_throttled(depot: Depot) -> None:
    """Ten requests a second pass, look-ups included; the next one gets 429, Retry-After in whole seconds, no effect."""
    statuses = [(await depot.find("order-1")).status_code for _ in range(10)]
    refused = await depot.ship()
    assert statuses == [200] * 10
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    depot.now += 1.0
    assert (await depot.ship()).status_code == 201
    ledger = await depot.ledger()
    assert ledger["totals"]["statuses"] == {"200": 10, "429": 1, "201": 1}
    assert (ledger["busiestSecond"], ledger["busiestSecondAdmitted"]) == ({"shop": 11}, {"shop": 10})
    assert [visit["at"] for visit in ledger["requests"]] == [1_000.0] * 11 + [1_001.0]


async def test_the_limit_is_per_api_key_and_can_be_turned(depot: Depot) -> None:
    """Another key has its own second, and the throttle is a knob like the others."""
    depot.controls.turn({"throttle": 1})
    assert [(await depot.find("x")).status_code for _ in range(2)] == [200, 429]
    bearer = await depot.http.get(
        "/shipments", params={"reference": "x"}, headers={"X-Api-Key": "", "Authorization": "Bearer other"}
    )
    assert bearer.status_code == 200
    depot.controls.turn({"throttle": None})
    assert [(await depot.find("x")).status_code for _ in range(30)] == [200] * 30


async def test_without_an_api_key_nothing_happens(depot: Depot) -> None:
    """A request without a key is a 401 that is logged and ships nothing."""
    response = await depot.http.post("/shipments", json=PARCEL, headers={"X-Api-Key": ""})
    ledger = await depot.ledger()
    assert response.status_code == 401
    assert (ledger["totals"]["shipments"], ledger["requests"][0]["status"]) == (0, 401)


@pytest.mark.parametrize("change", [{"weightGrams": 0.5}, {"weightGrams": 0}, {"reference": ""}, {"colour": "red"}])
async def test_a_malformed_parcel_is_refused(depot: Depot, change: dict[str, Any]) -> None:
    """A 400 names the field at fault and ships nothing."""
    response = await depot.ship(**change)
    assert (response.status_code, response.json()["error"]["param"]) == (400, next(iter(change)))
    assert (await depot.ledger())["totals"]["shipments"] == 0


@pytest.mark.parametrize(("fail_with", "status"), [("error", 500), ("cut", 499)])
async def test_fail_after_effect_has_shipped(depot: Depot, fail_with: str, status: int) -> None:
    """The caller sees a failure, the parcel is on its way, and a look-up finds it."""
    depot.controls.turn({"fail_after_effect": 1, "fail_with": fail_with})
    assert (await depot.ship()).status_code == status
    assert len((await depot.find("order-1")).json()) == 1
    assert (await depot.ship()).status_code == 409
