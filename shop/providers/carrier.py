"""A carrier over HTTP: no idempotency keys, but one shipment per reference, a look-up, and a strict rate limit.

Run it with `python -m shop.providers.carrier`; `--help` lists the knobs.
"""

import asyncio
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shop.providers.answer import Answer, RefusedError, error_answer, parse_body
from shop.providers.carrier_books import CarrierBooks, Shipment, Visit
from shop.providers.controls import Controls
from shop.providers.front import attend, control_routes, refuse_request
from shop.providers.journal import Journal
from shop.providers.knobs import Knobs
from shop.providers.serving import read_command_line, serve

OPERATIONS = ("ship", "look_up")
DEFAULTS = Knobs(throttle=10)


class ShipBody(BaseModel):
    """POST /shipments; an address is any text or object, the carrier does not read it."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    reference: Annotated[str, Field(min_length=1, max_length=200)]
    address: Annotated[str, Field(min_length=1)] | dict[str, str]
    weight_grams: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class Carrier:
    """The routes of the carrier over its books and controls."""

    def __init__(self, controls: Controls, books: CarrierBooks, clock: Callable[[], float]) -> None:
        self._controls = controls
        self._books = books
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("/shipments", self.ship, methods=["POST"]),
            Route("/shipments", self.look_up, methods=["GET"]),
            *control_routes(self._controls, self._books.ledger, self._books.forget),
        ]

    async def ship(self, request: Request) -> Response:
        async def act() -> Answer:
            body = parse_body(ShipBody, await request.body())
            await self._controls.delay("ship")
            return self._shipped(body)

        return await self._attend(request, "ship", act)

    async def look_up(self, request: Request) -> Response:
        async def act() -> Answer:
            await self._controls.delay("look_up")
            reference = request.query_params.get("reference")
            if not reference:
                message = "say which shipments: GET /shipments?reference=…"
                raise RefusedError(error_answer(400, "missing_parameter", message, param="reference"))
            shipment = self._books.shipments.get(reference)
            return Answer(200, [] if shipment is None else [shipment.view()])

        return await self._attend(request, "look_up", act)

    async def _attend(self, request: Request, operation: str, act: Callable[[], Awaitable[Answer]]) -> Response:
        """Note the visit with its time of arrival, whatever becomes of it."""
        visit = Visit(at=self._clock(), operation=operation, api_key=_api_key(request))
        self._books.arrive(visit)
        if visit.api_key is None:
            message = "send your API key as X-Api-Key, or as Authorization: Bearer"
            response: Response = error_answer(401, "unauthorized", message).response()
        else:
            response = await attend(request, self._controls, operation, visit.api_key, act)
        self._books.leave(visit, response.status_code)
        return response

    def _shipped(self, body: ShipBody) -> Answer:
        """Take the parcel unless its reference is taken: one step, so that of two calls at once one gets a 409."""
        if body.reference in self._books.shipments:
            message = f"there is a shipment with reference {body.reference!r}; look it up"
            return error_answer(409, "duplicate_reference", message, param="reference")
        number = f"VN{uuid.uuid4().hex[:16].upper()}"
        shipment = Shipment(tracking_number=number, at=self._clock(), **body.model_dump())
        self._books.take(shipment)
        aftermath = self._controls.aftermath("ship")
        if aftermath.fail == "error":
            failure = error_answer(500, "internal_error", "something went wrong on our side", kind="api_error")
            return Answer(500, failure.body, aftermath=aftermath)
        return Answer(201, shipment.view(), aftermath=aftermath)


def create_app(
    controls: Controls, journal: Journal | None = None, *, clock: Callable[[], float] = time.time
) -> Starlette:
    """Build the carrier with the history in `journal`, which stays the caller's to close; `clock` is in epoch seconds."""
    journal = Journal() if journal is None else journal
    routes = Carrier(controls, CarrierBooks(journal), clock).routes()
    return Starlette(routes=routes, exception_handlers={RefusedError: refuse_request})


def main() -> None:
    """Serve until told to stop."""
    options = read_command_line("carrier", OPERATIONS, DEFAULTS, sys.argv[1:])
    controls = Controls(options.knobs, OPERATIONS)
    with Journal(options.state_file) as journal:
        asyncio.run(serve(create_app(controls, journal), controls, options))


def _api_key(request: Request) -> str | None:
    bearer = request.headers.get("Authorization", "")
    return request.headers.get("X-Api-Key") or bearer.removeprefix("Bearer ").strip() or None


if __name__ == "__main__":
    main()
