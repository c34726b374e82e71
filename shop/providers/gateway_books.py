"""The gateway's history: every answered write as one entry, and the state that follows from the entries."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from shop.providers.authorizations import Attempts, Authorization, Authorized, Effect
from shop.providers.idempotency import KeyStore, Replayed
from shop.providers.journal import Journal

Operation = Literal["authorize", "capture", "void"]


class Asked(BaseModel):
    """One answered POST: who asked for what with which key, what they were told, and what really happened."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["asked"] = "asked"
    at: float
    operation: Operation
    authorization_id: str | None
    key: str | None
    fingerprint: str
    status: int
    body: Any = None  # left out of replays: the first entry has it
    replayed: bool = False
    effect: Effect | None = None


class Advanced(BaseModel):
    """The gateway's clock was put forward."""

    kind: Literal["advanced"] = "advanced"
    seconds: float


class Forgotten(BaseModel):
    """Everything before this entry was thrown away."""

    kind: Literal["forgotten"] = "forgotten"


_Entry = Annotated[Asked | Advanced | Forgotten, Field(discriminator="kind")]
_entries: TypeAdapter[Asked | Advanced | Forgotten] = TypeAdapter(_Entry)


class GatewayBooks:
    """Authorizations, keys and clock, rebuilt from a journal; `write` is the only way to change them."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        self.authorizations: dict[str, Authorization] = {}
        self.keys = KeyStore()
        self.unmatched = 0
        self._by_reference: dict[str, list[Authorization]] = {}
        self._clock = clock
        self._advanced_seconds = 0.0
        self._journal = journal
        for line in journal.lines():
            self._apply(_entries.validate_json(line))

    def now(self) -> float:
        """Return the gateway's time: the real one and what it was advanced by, in seconds since the epoch."""
        return self._clock() + self._advanced_seconds

    def write(self, entry: Asked | Advanced | Forgotten) -> None:
        """Put an entry into the journal, then into effect; call it before answering, without awaiting in between."""
        self._journal.append(entry.model_dump_json())
        self._apply(entry)

    def find(self, reference: str) -> list[Authorization]:
        return self._by_reference.get(reference, [])

    def ledger(self) -> dict[str, Any]:
        """Return what really happened; `capturedTwice` counts references (orders) that were captured more than once."""
        now = self.now()
        statuses = Counter(authorization.status(now) for authorization in self.authorizations.values())
        captures = {
            reference: number
            for reference, holds in self._by_reference.items()
            if (number := sum(len(hold.captures) for hold in holds))
        }
        return {
            "authorizations": [hold.ledger_line(now) for hold in self.authorizations.values()],
            "capturesByReference": captures,
            "totals": {
                "authorizations": len(self.authorizations),
                **{status: statuses[status] for status in ("authorized", "captured", "voided", "expired")},
                "captures": sum(captures.values()),
                "capturedTwice": sum(number > 1 for number in captures.values()),
                "requestsForUnknownAuthorizations": self.unmatched,
            },
        }

    def _apply(self, entry: Asked | Advanced | Forgotten) -> None:
        match entry:
            case Asked():
                self._apply_asked(entry)
            case Advanced():
                self._advanced_seconds += entry.seconds
            case Forgotten():
                self.authorizations.clear()
                self._by_reference.clear()
                self.keys = KeyStore()
                self.unmatched = 0

    def _apply_asked(self, asked: Asked) -> None:
        match asked.effect:
            case Authorized() as opened:
                hold = Authorization(opened)
                self.authorizations[opened.id] = hold
                self._by_reference.setdefault(opened.reference, []).append(hold)
            case None:
                pass
            case change:
                self.authorizations[change.id].apply(change)
        if asked.key is not None and not asked.replayed:
            self.keys.finish(
                asked.key, asked.fingerprint, Replayed(asked.status, asked.body, asked.authorization_id), asked.at
            )
        self._count(asked)

    def _count(self, asked: Asked) -> None:
        hold = self.authorizations.get(asked.authorization_id or "")
        if hold is None:
            self.unmatched += 1
            return
        attempts = hold.attempts.setdefault(asked.operation, Attempts())
        attempts.count(asked.key, asked.status, replayed=asked.replayed)
