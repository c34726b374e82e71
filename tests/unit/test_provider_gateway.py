"""The gateway's trade: holds, captures, voids, and a ledger of the truth. In-process, over ASGI."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shop.providers.controls import Controls
from shop.providers.gateway import OPERATIONS, create_app
from shop.providers.knobs import Knobs

EIGHT_DAYS_SECONDS = 8 * 86_400


class Till:
    """A client of a gateway that runs in this process."""

    def __init__(self) -> None:
        self.controls = Controls(Knobs(), OPERATIONS)
        transport = httpx.ASGITransport(create_app(self.controls))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway")

    async def post(self, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        return await self.http.post(path, json=body, headers={} if key is None else {"Idempotency-Key": key})

    async def authorize(self, reference: str = "order-1", amount: int = 250_000) -> str:
        response = await self.post(
            "/authorizations", {"amount": amount, "currency": "VND", "reference": reference}, f"authorize-{reference}"
        )
        assert response.status_code == 201
        number: str = response.json()["id"]
        return number

    async def ledger(self) -> dict[str, Any]:
        content: dict[str, Any] = (await self.http.get("/_ledger")).json()
        return content


@pytest.fixture
async def till() -> AsyncIterator[Till]:
    """Provide a fresh gateway."""
    till = Till()
    async with till.http:
        yield till


async def test_a_hold_can_be_seen_by_id_and_by_reference(till: Till) -> None:
    """An orphaned hold is found by the reference of its order, and nothing is found for another."""
    number = await till.authorize("order-7", 90_000)
    by_id = (await till.http.get(f"/authorizations/{number}")).json()
    by_reference = (await till.http.get("/authorizations", params={"reference": "order-7"})).json()
    assert by_id == by_reference[0]
    assert (by_id["status"], by_id["amount"], by_id["reference"]) == ("authorized", 90_000, "order-7")
    assert (await till.http.get("/authorizations", params={"reference": "order-8"})).json() == []
    assert (await till.http.get("/authorizations")).status_code == 400
    assert (await till.http.get("/authorizations/auth_none")).status_code == 404


@pytest.mark.parametrize("amount", [250_000.0, 0.5, -1, 0, "250000", True, None, 2**53])
async def test_money_is_whole_positive_dong(till: Till, amount: object) -> None:
    """A fraction, even .0, a negative or empty amount, and anything that is no number get a 400 that names the field."""
    body = {"amount": amount, "currency": "VND", "reference": "order-1"}
    authorization = await till.post("/authorizations", body)
    capture = await till.post(f"/authorizations/{await till.authorize()}/capture", {"amount": amount})
    assert {authorization.status_code, capture.status_code} == {400}
    assert authorization.json()["error"]["param"] == capture.json()["error"]["param"] == "amount"
    assert (await till.ledger())["totals"]["captures"] == 0


@pytest.mark.parametrize(
    "body", [{"amount": 5, "currency": "USD", "reference": "o"}, {"amount": 5, "currency": "VND"}, [], {"amout": 5}]
)
async def test_a_malformed_request_is_refused(till: Till, body: object) -> None:
    """Another currency, a missing field, an unknown field or no object at all is a 400 and leaves no trace."""
    assert (await till.post("/authorizations", body)).status_code == 400
    assert (await till.ledger())["authorizations"] == []


async def test_a_capture_is_seen_and_happens_once(till: Till) -> None:
    """A second capture without the first one's key is told `already_captured` and takes no money."""
    number = await till.authorize()
    first = await till.post(f"/authorizations/{number}/capture", {"amount": 250_000})
    second = await till.post(f"/authorizations/{number}/capture", {"amount": 250_000})
    seen = (await till.http.get(f"/authorizations/{number}")).json()
    assert (first.status_code, second.status_code) == (200, 409)
    assert second.json()["error"]["code"] == "already_captured"
    assert (seen["status"], seen["captureId"]) == ("captured", first.json()["captureId"])
    assert (await till.ledger())["authorizations"][0]["captures"] == 1


async def test_two_captures_at_once_with_different_keys_take_the_money_once(till: Till) -> None:
    """The transition is one step: of twenty captures in parallel under twenty keys, one happens."""
    number = await till.authorize()
    till.controls.turn({"latency_ms": 5})
    answers = await asyncio.gather(
        *(till.post(f"/authorizations/{number}/capture", {"amount": 250_000}, f"key-{i}") for i in range(20))
    )
    line = (await till.ledger())["authorizations"][0]
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert (line["captures"], line["capturedAmount"]) == (1, 250_000)
    assert line["requests"]["capture"]["statuses"] == {"200": 1, "409": 19}
    assert len(line["requests"]["capture"]["keys"]) == 20


async def test_capture_and_void_at_once_do_one_of_the_two(till: Till) -> None:
    """A hold is never both captured and voided, whoever comes first."""
    number = await till.authorize()
    till.controls.turn({"latency_ms": 5})
    await asyncio.gather(
        *(till.post(f"/authorizations/{number}/void", key=f"void-{i}") for i in range(5)),
        *(till.post(f"/authorizations/{number}/capture", {"amount": 250_000}, f"capture-{i}") for i in range(5)),
    )
    line = (await till.ledger())["authorizations"][0]
    assert line["captures"] + line["voids"] == 1


async def test_void_is_idempotent_and_forbids_the_capture(till: Till) -> None:
    """Voiding twice gives the same answer and one void; the capture afterwards is refused for good."""
    number = await till.authorize()
    voids = [await till.post(f"/authorizations/{number}/void") for _ in range(2)]
    capture = await till.post(f"/authorizations/{number}/capture", {"amount": 250_000})
    assert [void.json()["status"] for void in voids] == ["voided", "voided"]
    assert (capture.status_code, capture.json()["error"]["code"]) == (402, "authorization_voided")
    assert (await till.ledger())["authorizations"][0]["voids"] == 1


async def test_void_of_a_captured_hold_is_refused(till: Till) -> None:
    """Money that was taken cannot be let go."""
    number = await till.authorize()
    await till.post(f"/authorizations/{number}/capture", {"amount": 250_000})
    void = await till.post(f"/authorizations/{number}/void")
    assert (void.status_code, void.json()["error"]["code"]) == (409, "already_captured")
    assert (await till.ledger())["authorizations"][0]["voids"] == 0


async def test_a_hold_expires(till: Till) -> None:
    """After its seven days a hold reads `expired`, cannot be captured, and may be voided without effect."""
    number = await till.authorize()
    await till.post("/_control/advance", {"seconds": EIGHT_DAYS_SECONDS})
    capture = await till.post(f"/authorizations/{number}/capture", {"amount": 250_000})
    void = await till.post(f"/authorizations/{number}/void")
    assert (await till.http.get(f"/authorizations/{number}")).json()["status"] == "expired"
    assert (capture.status_code, capture.json()["error"]["code"]) == (402, "authorization_expired")
    assert (void.status_code, void.json()["status"]) == (200, "expired")


async def test_more_than_the_hold_cannot_be_captured(till: Till) -> None:
    """A capture above the authorized amount is refused; one below it is allowed."""
    number = await till.authorize(amount=100)
    assert (await till.post(f"/authorizations/{number}/capture", {"amount": 101})).status_code == 400
    assert (await till.post(f"/authorizations/{number}/capture", {"amount": 60})).status_code == 200
    assert (await till.ledger())["authorizations"][0]["capturedAmount"] == 60


async def test_an_order_captured_on_two_holds_is_counted(till: Till) -> None:
    """`capturedTwice` sees an order whose money was taken twice, although each hold was captured once."""
    first = await till.authorize("order-1")
    again = {"amount": 250_000, "currency": "VND", "reference": "order-1"}
    second = (await till.post("/authorizations", again)).json()["id"]
    await till.post(f"/authorizations/{first}/capture", {"amount": 250_000})
    assert (await till.ledger())["totals"]["capturedTwice"] == 0
    await till.post(f"/authorizations/{second}/capture", {"amount": 250_000})
    ledger = await till.ledger()
    assert ledger["totals"]["capturedTwice"] == 1
    assert ledger["capturesByReference"] == {"order-1": 2}


async def test_unknown_knobs_get_a_422_that_names_them(till: Till) -> None:
    """The control route refuses what it does not know, and turns nothing then."""
    response = await till.http.post("/_control", json={"latency_ms": 5, "refuze": 1})
    assert response.status_code == 422
    assert "'refuze'; did you mean 'refuse'?" in response.json()["error"]["message"]
    assert till.controls.knobs.latency_ms == 0
    assert (await till.http.post("/_control", content=b"[1]")).status_code == 422
    assert (await till.http.post("/_control", content=b"{nope")).status_code == 422


@pytest.mark.parametrize(("status", "retry_after_seconds"), [(None, None), (429, 7), (402, None), (500, None)])
async def test_a_refusal_happens_before_the_effect(
    till: Till, status: int | None, retry_after_seconds: int | None
) -> None:
    """A refused call changed nothing, carries the wanted status and Retry-After, and the same key works afterwards."""
    number = await till.authorize()
    till.controls.turn({"refuse": 1, "refuse_status": status, "retry_after_seconds": retry_after_seconds})
    refused = await till.post(f"/authorizations/{number}/capture", {"amount": 1}, "k")
    assert refused.status_code == (status or 503)
    assert refused.headers.get("Retry-After") == (None if retry_after_seconds is None else str(retry_after_seconds))
    assert (await till.ledger())["totals"]["captures"] == 0
    assert (await till.post(f"/authorizations/{number}/capture", {"amount": 1}, "k")).status_code == 200


async def test_reset_can_forget_the_ledger(till: Till) -> None:
    """A reset keeps the history unless it is told to drop it, keys included."""
    await till.authorize()
    await till.post("/_control/reset")
    assert len((await till.ledger())["authorizations"]) == 1
    await till.post("/_control/reset", {"ledger": True})
    assert (await till.ledger())["totals"]["authorizations"] == 0
    await till.authorize()
    assert (await till.ledger())["authorizations"][0]["requests"]["authorize"]["replayed"] == 0
