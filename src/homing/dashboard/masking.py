"""Payloads as pages show them: what is secret by the name of its field is hidden, at any depth. Pure."""

import json
import re
from collections.abc import Collection
from typing import Any

MASK = "••••••"

SECRET_FIELDS = frozenset(
    {
        "accesskey",
        "accesstoken",
        "apikey",
        "authorization",
        "cardnumber",
        "clientsecret",
        "cookie",
        "credentials",
        "creditcard",
        "cvc",
        "cvv",
        "iban",
        "idtoken",
        "otp",
        "pan",
        "passphrase",
        "passwd",
        "password",
        "pin",
        "privatekey",
        "pwd",
        "refreshtoken",
        "secret",
        "secretkey",
        "sessionid",
        "setcookie",
        "signature",
        "ssn",
        "token",
    }
)
"""Fields that are hidden everywhere, however they are written: `api_key`, `apiKey` and `API-KEY` are one."""

_NO_LETTER = re.compile(r"[^a-z0-9]")
_DEEPEST = 100


class Masks:
    """Hides fields by their names: the well-known ones, and those of the settings."""

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._hidden = SECRET_FIELDS | {_plain(field) for field in fields}

    def hides(self, field: str) -> bool:
        """Whether the value of such a field is not shown."""
        return _plain(field) in self._hidden

    def mask(self, value: Any, depth: int = 0) -> Any:
        """The same JSON value with what is secret replaced."""
        if depth > _DEEPEST:
            return "…"
        if isinstance(value, dict):
            return {key: MASK if self.hides(key) else self.mask(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask(inner, depth + 1) for inner in value]
        return value

    def read(self, text: str | None) -> Any:
        """The JSON value of a text, masked. What is no JSON has no fields to hide, so that nothing of it is shown but its length."""
        if text is None or not text.strip():
            return None
        try:
            return self.mask(json.loads(text))
        except (ValueError, RecursionError):
            return f"(no JSON: {len(text):,} characters, not shown)"


def _plain(field: str) -> str:
    return _NO_LETTER.sub("", field.lower())
