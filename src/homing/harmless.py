"""Text from elsewhere, made harmless for a terminal, a table and the database."""

import re

# The last two ranges turn the direction of what follows: a name may look like another one, or hide its end.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def clean(text: str, most: int | None = None) -> str:
    """`text` without what jsonb refuses, terminals obey, or makes it look like another text, cut to `most` characters with a note of how many are missing."""
    safe = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    if most is None or len(safe) <= most:
        return safe
    return f"{safe[:most]}… ({len(safe) - most:,} more characters)"


def clean_line(text: str, most: int = 160) -> str:
    """`text` as one line of a table: clean, its line breaks as blanks, cut to `most` characters."""
    return clean(" ".join(text.split()), most)
