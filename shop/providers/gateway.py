"""A payment gateway over HTTP: authorize, capture, void, look up, with idempotency keys and a ledger of the truth.

Run it with `python -m shop.providers.gateway`; `--help` lists the knobs.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shop.providers.answer import Answer, RefusedError, error_answer, parse_body
from shop.providers.authorizations import Authorization
from shop.providers.controls import Controls
from shop.providers.front import attend, control_routes, refuse_request
from shop.providers.gateway_books import Advanced, Forgotten, GatewayBooks, Operation
from shop.providers.gateway_writes import Ask, Clerk
from shop.providers.idempotency import MAX_KEY_LENGTH, fingerprint
from shop.providers.journal import Journal
from shop.providers.knobs import Knobs
from shop.providers.rulings import Ruling, rule_authorization, rule_capture, rule_unknown, rule_void
from shop.providers.serving import read_command_line, serve

OPERATIONS = ("authorize", "capture", "void", "look_up")

Dong = Annotated[int, Field(strict=True, ge=1, le=2**53 - 1)]
"""Whole Vietnamese dong, at least one."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AuthorizeBody(_Body):
    """POST /authorizations."""

    amount: Dong
    currency: Annotated[str, Field(pattern="^(VND|vnd)$")]
    reference: Annotated[str, Field(min_length=1, max_length=200)]


class CaptureBody(_Body):
    """POST /authorizations/{id}/capture."""

    amount: Dong


class VoidBody(_Body):
    """POST /authorizations/{id}/void: nothing to say."""


class AdvanceBody(_Body):
    """POST /_control/advance: how far the clock goes forward."""

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Gateway:
    """The routes of the gateway over its books and controls."""

    def __init__(self, controls: Controls, books: GatewayBooks) -> None:
        self._controls = controls
        self._books = books
        self._clerk = Clerk(controls, books)

    def routes(self) -> list[Route]:
        return [
            Route("/authorizations", self.authorize, methods=["POST"]),
            Route("/authorizations", self.look_up_by_reference, methods=["GET"]),
            Route("/authorizations/{id}", self.look_up, methods=["GET"]),
            Route("/authorizations/{id}/capture", self.capture, methods=["POST"]),
            Route("/authorizations/{id}/void", self.void, methods=["POST"]),
            Route("/_control/advance", self.advance, methods=["POST"]),
            *control_routes(self._controls, self._books.ledger, partial(self._books.write, Forgotten())),
        ]

    async def authorize(self, request: Request) -> Response:
        async def act() -> Answer:
            body = parse_body(AuthorizeBody, await request.body())
            rule = partial(rule_authorization, body.reference, body.amount, body.currency.upper())
            return await self._clerk.serve(_ask(request, "authorize", body), rule)

        return await attend(request, self._controls, "authorize", "", act)

    async def capture(self, request: Request) -> Response:
        async def act() -> Answer:
            body = parse_body(CaptureBody, await request.body())

            def rule(now: float) -> Ruling:
                hold = self._hold(request)
                return rule_unknown(request.path_params["id"]) if hold is None else rule_capture(hold, body.amount, now)

            return await self._clerk.serve(_ask(request, "capture", body), rule)

        return await attend(request, self._controls, "capture", "", act)

    async def void(self, request: Request) -> Response:
        async def act() -> Answer:
            body = parse_body(VoidBody, await request.body() or b"{}")

            def rule(now: float) -> Ruling:
                hold = self._hold(request)
                return rule_unknown(request.path_params["id"]) if hold is None else rule_void(hold, now)

            return await self._clerk.serve(_ask(request, "void", body), rule)

        return await attend(request, self._controls, "void", "", act)

    async def look_up(self, request: Request) -> Response:
        def look() -> Answer:
            hold = self._hold(request)
            if hold is None:
                return rule_unknown(request.path_params["id"]).answer
            return Answer(200, hold.view(self._books.now()))

        return await attend(request, self._controls, "look_up", "", self._slowly(look))

    async def look_up_by_reference(self, request: Request) -> Response:
        def look() -> Answer:
            reference = request.query_params.get("reference")
            if not reference:
                message = "say whose authorizations: GET /authorizations?reference=…"
                raise RefusedError(error_answer(400, "missing_parameter", message, param="reference"))
            return Answer(200, [hold.view(self._books.now()) for hold in self._books.find(reference)])

        return await attend(request, self._controls, "look_up", "", self._slowly(look))

    async def advance(self, request: Request) -> Response:
        """Put the clock forward, so that keys are forgotten and holds expire."""
        self._books.write(Advanced(seconds=parse_body(AdvanceBody, await request.body()).seconds))
        return JSONResponse({"now": self._books.now()})

    def _hold(self, request: Request) -> Authorization | None:
        return self._books.authorizations.get(request.path_params["id"])

    def _slowly(self, look: Callable[[], Answer]) -> Callable[[], Awaitable[Answer]]:
        async def act() -> Answer:
            await self._controls.delay("look_up")
            return look()

        return act


def create_app(
    controls: Controls, journal: Journal | None = None, *, clock: Callable[[], float] = time.time
) -> Starlette:
    """Build the gateway with the history in `journal`, which stays the caller's to close; `clock` is in epoch seconds."""
    journal = Journal() if journal is None else journal
    routes = Gateway(controls, GatewayBooks(journal, clock)).routes()
    return Starlette(routes=routes, exception_handlers={RefusedError: refuse_request})


def main() -> None:
    """Serve until told to stop."""
    options = read_command_line("gateway", OPERATIONS, Knobs(), sys.argv[1:])
    controls = Controls(options.knobs, OPERATIONS)
    with Journal(options.state_file) as journal:
        asyncio.run(serve(create_app(controls, journal), controls, options))


def _ask(request: Request, operation: Operation, body: BaseModel) -> Ask:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= MAX_KEY_LENGTH:
        message = f"an idempotency key has 1 to {MAX_KEY_LENGTH} characters, not {len(key)}"
        raise RefusedError(error_answer(400, "idempotency_error", message, kind="idempotency_error"))
    path = request.url.path
    return Ask(operation, request.path_params.get("id"), key, fingerprint("POST", path, body.model_dump()))


if __name__ == "__main__":
    main()
