"""The HTTP front of a provider: how knobs meet requests, and the routes that turn them."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shop.providers.answer import Answer, RefusedError, error_answer
from shop.providers.controls import CallerGoneError, Controls, ThrottledError, TurnedAwayError
from shop.providers.knobs import KnobError

CUT_CONNECTION = "cut_connection"
"""The key in the request's state under which the server offers to drop the connection."""

CLIENT_CLOSED_REQUEST = 499

_REFUSAL_CODES = {401: "unauthorized", 402: "card_declined", 403: "forbidden", 429: "rate_limited", 503: "unavailable"}


async def attend(
    request: Request, controls: Controls, operation: str, caller: str, act: Callable[[], Awaitable[Answer]]
) -> Response:
    """Let one request in if the knobs agree, run `act`, and send its answer out, late, broken or never."""

    async def gone() -> None:
        await request.body()  # read already in most calls; until it is, `receive` would return it instead of the end
        await request.receive()

    try:
        await controls.arrive(operation, caller, gone)
        answer = await act()
        if answer.aftermath.hang:
            await controls.hold("hang_after_effect", gone)
    except ThrottledError as throttled:
        answer = _throttled_answer(throttled.retry_after_seconds)
    except TurnedAwayError as refusal:
        answer = _turned_away_answer(refusal)
    except RefusedError as refusal:
        answer = refusal.answer
    except CallerGoneError:
        return await _cut(request)
    return await _cut(request) if answer.aftermath.fail == "cut" else answer.response()


def control_routes(
    controls: Controls, ledger: Callable[[], dict[str, Any]], forget: Callable[[], None] | None = None
) -> list[Route]:
    """Return the routes that every provider has beside its trade; `forget` empties its history."""

    async def show(_: Request) -> Response:
        return _panel(controls)

    async def turn(request: Request) -> Response:
        try:
            controls.turn(await _json_object(request))
        except KnobError as error:
            return error_answer(422, "invalid_knob", str(error)).response()
        return _panel(controls)

    async def reset(request: Request) -> Response:
        if (await _json_object(request)).get("ledger") and forget is not None:
            forget()
        controls.reset()
        return _panel(controls)

    async def release(_: Request) -> Response:
        controls.release()
        return _panel(controls)

    async def held(request: Request) -> Response:
        calls = int(_number(request, "calls", 1))
        timeout_seconds = _number(request, "timeout_seconds", 5)
        reached = await controls.wait_until_held(calls, timeout_seconds)
        return JSONResponse({"held": controls.held}, 200 if reached else 504)

    async def show_ledger(_: Request) -> Response:
        return JSONResponse({**ledger(), "injected": dict(controls.injected)})

    return [
        Route("/_control", show, methods=["GET"]),
        Route("/_control", turn, methods=["POST"]),
        Route("/_control/reset", reset, methods=["POST"]),
        Route("/_control/release", release, methods=["POST"]),
        Route("/_control/held", held, methods=["GET"]),
        Route("/_ledger", show_ledger, methods=["GET"]),
    ]


async def refuse_request(_: Request, error: Exception) -> Response:
    """Answer a `RefusedError` that a control route raised."""
    if not isinstance(error, RefusedError):
        raise error
    return error.answer.response()


async def _json_object(request: Request) -> dict[str, Any]:
    raw = await request.body()
    try:
        content = json.loads(raw or b"{}")
    except ValueError as error:
        raise RefusedError(error_answer(422, "invalid_json", f"the body is not JSON: {error}")) from error
    if not isinstance(content, dict):
        raise RefusedError(error_answer(422, "invalid_json", "the body must be a JSON object"))
    return content


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, str(default))
    try:
        return float(text)
    except ValueError as error:
        raise RefusedError(error_answer(422, "invalid_parameter", f"{name} is not a number: {text!r}")) from error


def _panel(controls: Controls) -> Response:
    return JSONResponse({"knobs": controls.knobs.model_dump(mode="json"), "held": controls.held})


def _throttled_answer(retry_after_seconds: int) -> Answer:
    message = f"too many requests in one second; try again in {retry_after_seconds} s"
    body = error_answer(429, "rate_limited", message, kind="rate_limit_error").body
    return Answer(429, body, {"Retry-After": str(retry_after_seconds)})


def _turned_away_answer(refusal: TurnedAwayError) -> Answer:
    status = 503 if refusal.status is None else refusal.status
    code = _REFUSAL_CODES.get(status, f"refused_{status}")
    body = error_answer(status, code, "refused on request of a knob", kind="api_error").body
    wait = refusal.retry_after_seconds
    return Answer(status, body, {} if wait is None else {"Retry-After": str(wait)})


async def _cut(request: Request) -> Response:
    """Drop the connection where the server can, and end the call; in-process callers see status 499."""
    cut = request.scope.get("state", {}).get(CUT_CONNECTION)
    if cut is not None:
        cut()
        while (await request.receive())["type"] != "http.disconnect":
            pass
    return Response(status_code=CLIENT_CLOSED_REQUEST)
