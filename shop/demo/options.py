"""What the variables ORDERS, SEED and KEEP say."""

import os
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from homing.errors import ConfigurationError

MAX_ORDERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One demonstration: how many orders, from which dice, and whether to stay up afterwards."""

    orders: int = 200
    seed: int = 1
    keep: bool = False
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def dice(self, purpose: str) -> Random:
        """Dice of their own for each purpose, so that one does not disturb another."""
        return random.Random(f"{self.seed}/{purpose}")  # noqa: S311 - a simulation's dice, not a secret


def read_options(environ: Mapping[str, str] = os.environ) -> Options:
    """Read the variables; a `ConfigurationError` names a wrong one."""
    return Options(
        orders=_number(environ, "ORDERS", 200, least=1, most=MAX_ORDERS),
        seed=_number(environ, "SEED", 1, least=0, most=2**31),
        keep=_number(environ, "KEEP", 0, least=0, most=1) == 1,
    )


def _number(environ: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ConfigurationError(f"{name}={text!r}: write a whole number from {least} to {most}")
    return int(text)
