"""What must not stand in a log line as it came: secrets in addresses, and values as long as somebody else liked. Pure."""

import json
from collections.abc import Mapping

from homing.config.urls import mask_text

MOST_CHARACTERS = 8_192
"""Characters of a value that are written; its middle is left out."""

LONG_LINE = 2 * MOST_CHARACTERS
"""Characters of a line that is short enough to need no look at its values."""

_PLAIN = int | float | bool | None


def is_tidy(line: str) -> bool:
    """Whether a line can be written as it is: the usual case, found out at once."""
    return len(line) <= LONG_LINE and tells_no_secret(line)


def tells_no_secret(text: str) -> bool:
    """Whether nothing in a text looks as if a secret stood behind it."""
    return "://" not in text and "assword" not in text and "ASSWORD" not in text


def tidy(values: Mapping[str, object]) -> dict[str, object]:
    """The values with secrets masked and cut to a bounded length; what is no text, number or truth is written as JSON, or as `str` has it."""
    return {name: value if isinstance(value, _PLAIN) else tidy_text(_text(value)) for name, value in values.items()}


def tidy_text(text: str) -> str:
    """The text with secrets masked and a bounded length."""
    return _cut(mask_text(_cut(text, 2 * MOST_CHARACTERS)), MOST_CHARACTERS)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _cut(text: str, most: int) -> str:
    """A long text without its middle: how it begins says what it is, how it ends says what happened."""
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[: most // 2]} [… {left_out:,} characters …] {text[-most // 2 :]}"
