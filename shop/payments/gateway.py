"""The payment gateway over HTTP."""

from typing import Any

import httpx

from homing import PermanentError
from homing.http import TransientHTTPError, error_from_response
from shop.outbound import Partner
from shop.payments.port import Hold

CURRENCY = "VND"


class HttpGateway:
    """Implements `PaymentGateway`."""

    def __init__(self, partner: Partner) -> None:
        self._partner = partner

    async def authorize(self, *, reference: str, amount: int, idempotency_key: str) -> Hold:
        body = {"reference": reference, "amount": amount, "currency": CURRENCY}
        response = await self._write("/authorizations", idempotency_key, body)
        return _hold(_content(response, f"authorizing {amount} for {reference}"))

    async def find(self, reference: str) -> list[Hold]:
        response = await self._partner.send("GET", "/authorizations", params={"reference": reference})
        return [_hold(found) for found in _content(response, f"looking for authorizations of {reference}")]

    async def look_up(self, authorization_id: str) -> Hold:
        response = await self._partner.send("GET", f"/authorizations/{authorization_id}")
        return _hold(_content(response, f"looking up authorization {authorization_id}"))

    async def capture(self, authorization_id: str, amount: int, *, idempotency_key: str) -> str:
        path = f"/authorizations/{authorization_id}/capture"
        response = await self._write(path, idempotency_key, {"amount": amount})
        if _code(response) == "already_captured":  # by another run, under a key that was forgotten since
            hold = await self.look_up(authorization_id)
            if hold.capture_id is not None:
                return hold.capture_id
        return str(_content(response, f"capturing authorization {authorization_id}")["captureId"])

    async def void(self, authorization_id: str, *, idempotency_key: str) -> Hold:
        response = await self._write(f"/authorizations/{authorization_id}/void", idempotency_key, {})
        if _code(response) == "already_captured":
            return await self.look_up(authorization_id)
        return _hold(_content(response, f"voiding authorization {authorization_id}"))

    async def _write(self, path: str, idempotency_key: str, body: dict[str, Any]) -> httpx.Response:
        return await self._partner.send("POST", path, body=body, headers={"Idempotency-Key": idempotency_key})


def _content(response: httpx.Response, context: str) -> Any:
    if response.is_success:
        return response.json()
    code = _code(response)
    if code == "idempotency_key_in_use":  # nothing is decided: ask again
        raise TransientHTTPError(f"{context}: the first request under this key is in progress")
    if code.startswith("authorization_"):
        raise PermanentError(f"{context}: the authorization is {code.removeprefix('authorization_')}")
    raise error_from_response(response, f"{context} ({code or 'no code'})")


def _code(response: httpx.Response) -> str:
    """The gateway's own word for an error; empty when there is none."""
    if response.is_success:
        return ""
    try:
        return str(response.json()["error"]["code"])
    except (ValueError, KeyError, TypeError):  # an answer from something in between: the status alone has to do
        return ""


def _hold(answer: dict[str, Any]) -> Hold:
    return Hold(id=answer["id"], status=answer["status"], capture_id=answer.get("captureId"))
