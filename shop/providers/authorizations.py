"""What a payment gateway knows about a hold on a customer's money, from the first request to the last."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field

HOLD_LIFETIME_SECONDS = 7 * 24 * 60 * 60.0

Status = Literal["authorized", "captured", "voided", "expired"]


class _Effect(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    at: float
    """When it happened: seconds since the epoch, by the gateway's clock."""


class Authorized(_Effect):
    """Money was put on hold."""

    kind: Literal["authorized"] = "authorized"
    reference: str
    amount: int
    currency: str


class Captured(_Effect):
    """Held money was taken."""

    kind: Literal["captured"] = "captured"
    capture_id: str
    amount: int


class Voided(_Effect):
    """Held money was let go."""

    kind: Literal["voided"] = "voided"


Effect = Annotated[Authorized | Captured | Voided, Field(discriminator="kind")]


@dataclass(slots=True)
class Attempts:
    """The requests for one operation on one authorization, whatever came of them."""

    total: int = 0
    replayed: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)

    def count(self, key: str | None, status: int, *, replayed: bool) -> None:
        self.total += 1
        self.replayed += replayed
        self.statuses[status] += 1
        if key is not None:
            self.keys[key] += 1

    def summary(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "replayed": self.replayed,
            "statuses": {str(status): number for status, number in self.statuses.items()},
            "keys": dict(self.keys),
        }


@dataclass(slots=True)
class Authorization:
    """One hold with everything that really happened to it."""

    opened: Authorized
    captures: list[Captured] = field(default_factory=list)
    voids: list[Voided] = field(default_factory=list)
    attempts: dict[str, Attempts] = field(default_factory=dict)

    def status(self, now: float) -> Status:
        if self.captures:
            return "captured"
        if self.voids:
            return "voided"
        return "expired" if now - self.opened.at >= HOLD_LIFETIME_SECONDS else "authorized"

    def apply(self, effect: Captured | Voided) -> None:
        match effect:
            case Captured():
                self.captures.append(effect)
            case Voided():
                self.voids.append(effect)
            case _:
                assert_never(effect)

    def view(self, now: float) -> dict[str, Any]:
        """Return what a client of the gateway sees."""
        opened = self.opened
        view = {
            "id": opened.id,
            "status": self.status(now),
            "amount": opened.amount,
            "currency": opened.currency,
            "reference": opened.reference,
            "createdAt": opened.at,
        }
        return {**view, "captureId": self.captures[0].capture_id} if self.captures else view

    def ledger_line(self, now: float) -> dict[str, Any]:
        """Return what really happened, requests and keys included."""
        return {
            **self.view(now),
            "captures": len(self.captures),
            "capturedAmount": sum(capture.amount for capture in self.captures),
            "voids": len(self.voids),
            "requests": {operation: attempts.summary() for operation, attempts in self.attempts.items()},
        }
