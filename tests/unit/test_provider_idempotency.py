"""Idempotency keys at the gateway, as its clients see them. In-process, over ASGI."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shop.providers.controls import Controls
from shop.providers.gateway import OPERATIONS, create_app
from shop.providers.idempotency import KEY_LIFETIME_SECONDS, Fresh, KeyStore, Mismatched, Replayed
from shop.providers.knobs import Knobs

ORDER = {"amount": 250_000, "currency": "VND", "reference": "order-1"}
REPLAYED = "Idempotent-Replayed"


class Pause:
    """A latency that lasts until the test opens it, and says when a call has reached it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.reached.set()
        await self.opened.wait()


class Till:
    """A client of a gateway that runs in this process."""

    def __init__(self) -> None:
        self.pause = Pause()
        self.controls = Controls(Knobs(), OPERATIONS, sleep=self.pause)
        transport = httpx.ASGITransport(create_app(self.controls))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway")

    async def authorize(self, key: str | None, body: dict[str, Any] | None = None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.http.post("/authorizations", json=ORDER if body is None else body, headers=headers)

    async def capture(self, number: str, key: str | None, amount: int = 250_000) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.http.post(f"/authorizations/{number}/capture", json={"amount": amount}, headers=headers)

    async def ledger(self) -> dict[str, Any]:
        content: dict[str, Any] = (await self.http.get("/_ledger")).json()
        return content


@pytest.fixture
async def till() -> AsyncIterator[Till]:
    """Provide a fresh gateway."""
    till = Till()
    async with till.http:
        yield till


async def test_same_key_and_parameters_replay_the_first_answer(till: Till) -> None:
    """The second request has no effect and gets the same status and body, marked as a replay."""
    first, second = await till.authorize("k"), await till.authorize("k")
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    assert (first.headers.get(REPLAYED), second.headers.get(REPLAYED)) == (None, "true")
    ledger = await till.ledger()
    assert ledger["totals"]["authorizations"] == 1
    assert ledger["authorizations"][0]["requests"]["authorize"] == {
        "total": 2,
        "replayed": 1,
        "statuses": {"201": 2},
        "keys": {"k": 2},
    }


async def test_the_order_of_the_parameters_does_not_matter(till: Till) -> None:
    """Two requests that say the same in another order are the same request."""
    await till.authorize("k")
    again = await till.authorize("k", dict(reversed(ORDER.items())))
    assert again.headers.get(REPLAYED) == "true"


async def test_without_a_key_nothing_is_replayed(till: Till) -> None:
    """Two requests without a key are two holds."""
    first, second = await till.authorize(None), await till.authorize(None)
    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize("change", [{"amount": 1}, {"reference": "order-2"}])
async def test_same_key_with_other_parameters_is_refused(till: Till, change: dict[str, Any]) -> None:
    """A key that comes back with another request is a 400 idempotency_error without effect."""
    await till.authorize("k")
    other = await till.authorize("k", {**ORDER, **change})
    assert (other.status_code, other.json()["error"]["type"]) == (400, "idempotency_error")
    assert (await till.ledger())["totals"]["authorizations"] == 1


async def test_a_key_belongs_to_one_path(till: Till) -> None:
    """One key used for the captures of two holds is a mismatch, even with equal bodies."""
    first, second = (await till.authorize("a")).json()["id"], (await till.authorize("b")).json()["id"]
    assert (await till.capture(first, "capture")).status_code == 200
    assert (await till.capture(second, "capture")).status_code == 400
    assert (await till.ledger())["totals"]["captures"] == 1


async def test_same_key_while_the_first_is_in_flight_is_a_409(till: Till) -> None:
    """The loser is told to come back; once the first is done, the same key replays its answer."""
    till.controls.turn({"latency_ms": 1})
    first = asyncio.ensure_future(till.authorize("k"))
    await asyncio.wait_for(till.pause.reached.wait(), 60)
    second, other = await till.authorize("k"), await till.authorize("k", {**ORDER, "amount": 1})
    till.pause.opened.set()
    answer, third = await first, await till.authorize("k")
    assert (second.status_code, second.json()["error"]["code"]) == (409, "idempotency_key_in_use")
    assert other.status_code == 400
    assert (answer.status_code, third.json()) == (201, answer.json())
    assert (await till.ledger())["totals"]["authorizations"] == 1


async def test_errors_are_replayed_too(till: Till) -> None:
    """A refusal by the state of the hold is kept under its key like any answer."""
    number = (await till.authorize("a")).json()["id"]
    await till.http.post(f"/authorizations/{number}/void")
    first, second = await till.capture(number, "c"), await till.capture(number, "c")
    assert (first.status_code, second.status_code, second.headers.get(REPLAYED)) == (402, 402, "true")


async def test_a_500_after_the_effect_is_replayed_and_only_a_look_up_tells_the_truth(till: Till) -> None:
    """The capture happened, its key answers 500 for good, and the authorization says `captured`."""
    number = (await till.authorize("a")).json()["id"]
    till.controls.turn({"fail_after_effect": 1})
    first, second = await till.capture(number, "c"), await till.capture(number, "c")
    seen = (await till.http.get(f"/authorizations/{number}")).json()
    assert (first.status_code, second.status_code, second.headers.get(REPLAYED)) == (500, 500, "true")
    assert seen["status"] == "captured"
    ledger = await till.ledger()
    assert (ledger["totals"]["captures"], ledger["injected"]) == (1, {"failed_after_effect": 1})


async def test_a_cut_answer_is_replayed_whole(till: Till) -> None:
    """Where the answer was lost on the way, the same key gets the answer that was meant."""
    till.controls.turn({"fail_after_effect": 1, "fail_with": "cut"})
    lost, again = await till.authorize("k"), await till.authorize("k")
    assert lost.status_code == 499
    assert (again.status_code, again.headers.get(REPLAYED)) == (201, "true")
    assert (await till.ledger())["totals"]["authorizations"] == 1


async def test_replays_of_a_failed_answer_count_on_their_hold(till: Till) -> None:
    """Requests that were answered 500 still show at the hold they made."""
    till.controls.turn({"fail_after_effect": 1})
    await till.authorize("k")
    await till.authorize("k")
    ledger = await till.ledger()
    assert ledger["authorizations"][0]["requests"]["authorize"]["statuses"] == {"500": 2}
    assert ledger["totals"]["requestsForUnknownAuthorizations"] == 0


async def test_a_request_that_fails_validation_does_not_use_up_its_key(till: Till) -> None:
    """A key sent with a malformed request is free for the mended one."""
    assert (await till.authorize("k", {**ORDER, "amount": 0.5})).status_code == 400
    assert (await till.authorize("k")).status_code == 201


async def test_keys_are_forgotten_after_24_hours(till: Till) -> None:
    """Just before a day has passed the key replays; after it, the same request counts as new."""
    first = await till.authorize("k")
    await till.http.post("/_control/advance", json={"seconds": KEY_LIFETIME_SECONDS - 60})
    replay = await till.authorize("k")
    await till.http.post("/_control/advance", json={"seconds": 61})
    second = await till.authorize("k")
    assert replay.headers.get(REPLAYED) == "true"
    assert second.headers.get(REPLAYED) is None
    assert second.json()["id"] != first.json()["id"]


async def test_a_forgotten_key_does_not_capture_again(till: Till) -> None:
    """A capture retried after the key is gone meets the state of the hold: 409, and no second capture."""
    number = (await till.authorize("a")).json()["id"]
    await till.capture(number, "c")
    await till.http.post("/_control/advance", json={"seconds": KEY_LIFETIME_SECONDS})
    late = await till.capture(number, "c")
    assert (late.status_code, late.json()["error"]["code"]) == (409, "already_captured")
    assert (await till.ledger())["totals"]["captures"] == 1


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_has_1_to_255_characters(till: Till, key: str) -> None:
    """An empty or overlong key is refused before anything happens."""
    assert (await till.authorize(key)).status_code == 400
    assert (await till.ledger())["totals"]["authorizations"] == 0


def test_memory_follows_one_day_of_traffic() -> None:
    """Forgotten keys leave the store when new ones come, and keys of today stay."""
    keys = KeyStore()
    for hour in range(72):
        now = hour * 3600.0
        assert keys.claim(f"k{hour}", "request", now) == Fresh()
        keys.finish(f"k{hour}", "request", Replayed(200, {}), now)
    assert len(keys) == 24
    assert keys.claim("k71", "request", 71 * 3600.0) == Replayed(200, {})
    assert keys.claim("k71", "another", 71 * 3600.0) == Mismatched()
