"""What the variables ORDERS, SEED and KEEP say."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from shop.trial.options import MAX_ORDERS, MAX_SEED, Trial, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Trial):
    """One demonstration: a trial, and whether to stay up afterwards."""

    keep: bool = False


def read_options(environ: Mapping[str, str] = os.environ) -> Options:
    """Read the variables; a `ConfigurationError` names a wrong one."""
    return Options(
        orders=whole_number(environ, "ORDERS", 200, least=1, most=MAX_ORDERS),
        seed=whole_number(environ, "SEED", 1, least=0, most=MAX_SEED),
        keep=whole_number(environ, "KEEP", 0, least=0, most=1) == 1,
    )
