"""From an event to JSON and back, refusing everything that would arrive changed somewhere else.

PostgreSQL's jsonb refuses NUL characters and lone surrogates and writes large floats as whole numbers, Node and Bull Board round
integers beyond 2^53, JSON has no NaN. Each of these is refused before a connection is touched, and the text names the field.
"""

import json
import math
from typing import Any

from pydantic import SecretBytes, SecretStr

from homing.errors import PayloadError
from homing.events.event import Event

MAX_PAYLOAD_BYTES = 256 * 1024
"""The largest payload, as UTF-8 JSON. A payload is ids and small values; the large thing belongs in a table."""

MAX_EXACT_INTEGER = 2**53
"""Beyond this, JavaScript's numbers are no longer whole."""

_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_payload(event: Event) -> dict[str, Any]:
    """The payload as JSON values in camelCase, checked; raises `PayloadError` naming the first field that cannot travel."""
    where = type(event).__name__
    try:
        payload = event.model_dump(mode="json", by_alias=True)
    except ValueError as error:  # pydantic's serialisation errors, and text that is no Unicode
        raise PayloadError(f"{where} cannot be written as JSON: {error}") from error
    check_json(event.model_dump(mode="python", by_alias=True), where)
    check_json(payload, where)
    size = len(dump_json(payload).encode())
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadError(
            f"{where} is {size:,} bytes of JSON, more than {MAX_PAYLOAD_BYTES:,}: store the large value and record its id"
        )
    return payload


def check_json(value: object, where: str) -> None:
    """Raise `PayloadError` for the first value inside `value` that PostgreSQL, Redis or Node would refuse or change."""
    match value:
        case str():
            _check_text(value, where)
        case bool() | None:
            return
        case float() if not math.isfinite(value):
            raise PayloadError(f"{where} is {value}: JSON has no NaN and no infinity")
        case int() | float() if abs(value) > MAX_EXACT_INTEGER:
            raise PayloadError(
                f"{where} is {value}: numbers beyond ±2^53 change silently in Node and jsonb; declare the field as str"
            )
        case SecretStr() | SecretBytes():
            raise PayloadError(f"{where} is a secret and would arrive as asterisks: keep secrets out of events")
        case dict():
            for key, item in value.items():
                _check_text(str(key), f"{where}: a key")
                check_json(item, f"{where}.{key}")
        case list() | tuple() | set() | frozenset():
            for index, item in enumerate(value):
                check_json(item, f"{where}[{index}]")
        case _:
            return


def dump_json(value: object) -> str:
    """Compact JSON text; raises `ValueError` or `TypeError` for what is no JSON value."""
    return _dump(value)


def _check_text(value: str, where: str) -> None:
    if "\x00" in value:
        raise PayloadError(f"{where} contains a NUL character, which PostgreSQL's jsonb refuses: remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(
            f"{where} contains a lone surrogate ({error.reason}): it is not valid Unicode text"
        ) from error
