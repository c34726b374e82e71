"""What a trial is made of, and how the variables that say so are read."""

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from homing.errors import ConfigurationError

MAX_ORDERS = 100_000
MAX_SEED = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How many orders, from which dice; `run` makes its keys and addresses different from those of every other trial."""

    orders: int = 200
    seed: int = 1
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def dice(self, purpose: str) -> Random:
        """Dice of their own for each purpose, so that one does not disturb another."""
        return random.Random(f"{self.seed}/{purpose}")  # noqa: S311 - a simulation's dice, not a secret


def whole_number(environ: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    """Read a variable; not set or empty is the default, and a `ConfigurationError` names a wrong value."""
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ConfigurationError(f"{name}={text!r}: write a whole number from {least} to {most}")
    return int(text)
