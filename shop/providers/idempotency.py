"""Idempotency keys the way Stripe documents them: the first answer is kept and replayed, errors included."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEY_LIFETIME_SECONDS = 24 * 60 * 60.0
MAX_KEY_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Fresh:
    """The key is new (or forgotten) and now taken; finish or abandon it."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The same request was answered before; this is what it was told."""

    status: int
    body: Any
    about: str | None = None
    """The id of what the request created or changed, even where the body does not tell."""


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The key was used with another request."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """The same request is being worked on right now."""


Claim = Fresh | Replayed | Mismatched | InFlight


@dataclass(frozen=True, slots=True)
class _Used:
    fingerprint: str
    first_used_at: float
    answer: Replayed | None  # None while in flight


def fingerprint(method: str, path: str, parameters: Mapping[str, Any]) -> str:
    """Identify a request by where it goes and what it says; the order and spacing of its JSON do not matter."""
    text = json.dumps([method, path, parameters], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class KeyStore:
    """The keys of the last 24 hours, by the clock of the caller (seconds)."""

    def __init__(self) -> None:
        self._used: dict[str, _Used] = {}

    def claim(self, key: str, request: str, now: float) -> Claim:
        """Look at a key and take it if it is free; one synchronous step, so that two callers cannot both get `Fresh`."""
        used = self._used.get(key)
        if used is None or _forgotten(used, now):
            self._prune(now)
            self._used[key] = _Used(request, now, None)
            return Fresh()
        if used.fingerprint != request:
            return Mismatched()
        return used.answer or InFlight()

    def finish(self, key: str, request: str, answer: Replayed, now: float) -> None:
        """Keep the answer for replays; the 24 hours count from the first use of the key."""
        used = self._used.pop(key, None)
        self._used[key] = _Used(request, now if used is None else used.first_used_at, answer)

    def abandon(self, key: str) -> None:
        """Free a key whose request ended without an answer worth keeping."""
        self._used.pop(key, None)

    def __len__(self) -> int:
        return len(self._used)

    def _prune(self, now: float) -> None:
        """Drop forgotten keys from the old end, so that memory follows the traffic of one day."""
        while self._used:
            oldest = next(iter(self._used))
            if self._used[oldest].answer is None or not _forgotten(self._used[oldest], now):
                return
            del self._used[oldest]


def _forgotten(used: _Used, now: float) -> bool:
    return used.answer is not None and now - used.first_used_at >= KEY_LIFETIME_SECONDS
