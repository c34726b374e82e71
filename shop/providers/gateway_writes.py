"""One write at the gateway: under its idempotency key, in one step, recorded before it is answered."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from shop.providers.answer import Answer, error_answer
from shop.providers.controls import Controls
from shop.providers.gateway_books import Asked, GatewayBooks, Operation
from shop.providers.idempotency import Fresh, InFlight, Mismatched, Replayed
from shop.providers.knobs import Aftermath
from shop.providers.rulings import Ruling

REPLAYED_HEADER = "Idempotent-Replayed"


@dataclass(frozen=True, slots=True)
class Ask:
    """A write somebody asks for; `authorization_id` is None where a new hold is asked for."""

    operation: Operation
    authorization_id: str | None
    key: str | None
    fingerprint: str


class Clerk:
    """Serves writes one at a time; between a ruling and its record nothing else runs."""

    def __init__(self, controls: Controls, books: GatewayBooks) -> None:
        self._controls = controls
        self._books = books

    async def serve(self, ask: Ask, rule: Callable[[float], Ruling]) -> Answer:
        """Answer a write; `rule` gets the gateway's time and decides, once the key allows it and the latency is over."""
        if ask.key is None:
            await self._controls.delay(ask.operation)
            return self._settle(ask, rule(self._books.now()))
        match self._books.keys.claim(ask.key, ask.fingerprint, self._books.now()):
            case Fresh():
                return await self._serve_fresh(ask, ask.key, rule)
            case Replayed() as first:
                return self._replay(ask, first)
            case Mismatched():
                message = f"idempotency key {ask.key!r} belongs to a request with other parameters; use a new key"
                return error_answer(400, "idempotency_error", message, kind="idempotency_error")
            case InFlight():
                message = f"the first request with idempotency key {ask.key!r} is still in progress; try again shortly"
                return error_answer(409, "idempotency_key_in_use", message, kind="idempotency_error")

    async def _serve_fresh(self, ask: Ask, key: str, rule: Callable[[float], Ruling]) -> Answer:
        try:
            await self._controls.delay(ask.operation)
            return self._settle(ask, rule(self._books.now()))
        except BaseException:
            self._books.keys.abandon(key)
            raise

    def _settle(self, ask: Ask, ruling: Ruling) -> Answer:
        """Record what was decided; the answer kept for replays is the one that goes out, a made-up 500 included."""
        aftermath = Aftermath() if ruling.effect is None else self._controls.aftermath(ask.operation)
        answer = ruling.answer
        if aftermath.fail == "error":
            answer = error_answer(500, "internal_error", "something went wrong on our side", kind="api_error")
        self._record(ask, answer, ruling)
        return replace(answer, aftermath=aftermath)

    def _record(self, ask: Ask, answer: Answer, ruling: Ruling) -> None:
        self._books.write(
            Asked(
                at=self._books.now(),
                operation=ask.operation,
                authorization_id=ruling.authorization_id,
                key=ask.key,
                fingerprint=ask.fingerprint,
                status=answer.status,
                body=answer.body,
                effect=ruling.effect,
            )
        )

    def _replay(self, ask: Ask, first: Replayed) -> Answer:
        self._books.write(
            Asked(
                at=self._books.now(),
                operation=ask.operation,
                authorization_id=first.about,
                key=ask.key,
                fingerprint=ask.fingerprint,
                status=first.status,
                replayed=True,
            )
        )
        return Answer(first.status, first.body, {REPLAYED_HEADER: "true"})
