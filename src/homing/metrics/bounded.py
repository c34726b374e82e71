"""Labels whose values come from data: the first of them are told apart, all others are one."""

UNKNOWN = "(unknown)"
"""What no handler here knows is called so: producers invent names, and may invent any number."""

OTHER = "(other)"
"""What came after the bound was reached."""


class Bounded:
    """At most `most` different values, the first that came; no series is ever taken back, so nobody makes place for others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, value: str) -> str:
        """`value`, or `OTHER` when there are too many."""
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value
