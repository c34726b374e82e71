"""The carrier over HTTP."""

from typing import Any

import httpx

from homing.http import TransientHTTPError, error_from_response
from shop.orders.port import Parcel
from shop.outbound import Partner


class HttpCarrier:
    """Implements `Carrier`."""

    def __init__(self, partner: Partner) -> None:
        self._partner = partner

    async def find(self, reference: str) -> str | None:
        response = await self._partner.send("GET", "/shipments", params={"reference": reference})
        found = _content(response, f"looking for the shipment of {reference}")
        return str(found[0]["trackingNumber"]) if found else None

    async def create(self, reference: str, parcel: Parcel) -> str:
        body = {"reference": reference, "address": parcel.address, "weightGrams": parcel.weight_grams}
        response = await self._partner.send("POST", "/shipments", body=body)
        if response.status_code == 409:  # another run was faster: that it is there is all we wanted
            return await self._find_taken(reference)
        return str(_content(response, f"creating the shipment of {reference}")["trackingNumber"])

    async def _find_taken(self, reference: str) -> str:
        number = await self.find(reference)
        if number is None:
            raise TransientHTTPError(f"the carrier says that {reference} is taken, and shows nothing under it")
        return number


def _content(response: httpx.Response, context: str) -> Any:
    if not response.is_success:
        raise error_from_response(response, context)
    return response.json()
