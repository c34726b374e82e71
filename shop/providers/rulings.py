"""What a payment gateway decides about a request: pure functions of the authorization, the request and the time."""

import uuid
from dataclasses import dataclass
from typing import Any, assert_never

from shop.providers.answer import Answer, error_answer
from shop.providers.authorizations import Authorization, Authorized, Captured, Voided


@dataclass(frozen=True, slots=True)
class Ruling:
    """The answer to a request and the one thing it changes; a refusal changes nothing."""

    answer: Answer
    authorization_id: str | None
    effect: Authorized | Captured | Voided | None = None


def rule_authorization(reference: str, amount: int, currency: str, now: float) -> Ruling:
    """Hold the money; a reference may be held for more than once, so that orphans look as they do in life."""
    opened = Authorized(id=f"auth_{uuid.uuid4().hex}", at=now, reference=reference, amount=amount, currency=currency)
    return Ruling(Answer(201, Authorization(opened).view(now)), opened.id, opened)


def rule_capture(hold: Authorization, amount: int, now: float) -> Ruling:
    """Take the money once, all of it or a part."""
    number, status = hold.opened.id, hold.status(now)
    match status:
        case "authorized":
            return _captured(hold, amount, now)
        case "captured":
            return Ruling(_already_captured(number), number)
        case "voided" | "expired":
            message = f"authorization {number} is {status} and cannot be captured"
            return Ruling(error_answer(402, f"authorization_{status}", message, kind="card_error"), number)
        case _:
            assert_never(status)


def rule_void(hold: Authorization, now: float) -> Ruling:
    """Let the money go; voiding what is voided or expired says so again and changes nothing."""
    number, status = hold.opened.id, hold.status(now)
    match status:
        case "authorized":
            voided = Voided(id=number, at=now)
            return Ruling(Answer(200, {**hold.view(now), "status": "voided"}), number, voided)
        case "captured":
            return Ruling(_already_captured(number), number)
        case "voided" | "expired":
            return Ruling(Answer(200, hold.view(now)), number)
        case _:
            assert_never(status)


def rule_unknown(authorization_id: str) -> Ruling:
    """Refuse a request about a hold that nobody opened here."""
    return Ruling(error_answer(404, "not_found", f"there is no authorization {authorization_id!r}"), None)


def _captured(hold: Authorization, amount: int, now: float) -> Ruling:
    number, held = hold.opened.id, hold.opened.amount
    if amount > held:
        message = f"cannot capture {amount} of an authorization of {held}"
        return Ruling(error_answer(400, "amount_too_large", message, param="amount"), number)
    captured = Captured(id=number, at=now, capture_id=f"cap_{uuid.uuid4().hex}", amount=amount)
    body: dict[str, Any] = {"captureId": captured.capture_id, "id": number, "status": "captured", "amount": amount}
    return Ruling(Answer(200, body), number, captured)


def _already_captured(number: str) -> Answer:
    return error_answer(409, "already_captured", f"authorization {number} is captured already")
