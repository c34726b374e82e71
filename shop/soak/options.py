"""What a soak is told: by ORDERS, SEED, SECONDS and STRIKES, or by arguments, which win."""

import argparse
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shop.trial.options import MAX_ORDERS, MAX_SEED, Trial, whole_number

ORDERS = 3000
ORDERS_PER_SECOND = 11
LEAST_SECONDS = 20
MAX_SECONDS = 86_400
SECONDS_PER_STRIKE = 3
MAX_STRIKES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Trial):
    """One soak: orders and faults are spread over `seconds`.

    `strikes`: how many faults, unless the plan needs more to have one of each; `flushes`: only that many flushes of Valkey, and no other fault.
    """

    seconds: int
    strikes: int
    flushes: int | None = None


def read_options(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Options:
    """Read variables and arguments; a `ConfigurationError` names a wrong variable, a wrong argument ends with status 2."""
    parser = argparse.ArgumentParser(prog="python -m shop.soak", allow_abbrev=False)
    for name, meaning in (
        ("orders", f"how many orders, {ORDERS} unless told otherwise"),
        ("seed", "of goods, faults and victims; drawn and printed unless told otherwise"),
        ("seconds", f"that everything is spread over; {ORDERS_PER_SECOND} orders a second unless told otherwise"),
        (
            "strikes",
            f"faults; one each {SECONDS_PER_STRIKE} seconds unless told otherwise, and at least one of each kind",
        ),
    ):
        parser.add_argument(f"--{name}", default=environ.get(name.upper(), ""), metavar="N", help=meaning)
    parser.add_argument("--flushes", default="", metavar="N", help="empty Valkey N times, and let nothing else fail")
    given = {name.upper(): value for name, value in vars(parser.parse_args(arguments)).items()}
    orders = whole_number(given, "ORDERS", ORDERS, least=1, most=MAX_ORDERS)
    enough = max(LEAST_SECONDS, orders // ORDERS_PER_SECOND)
    seconds = whole_number(given, "SECONDS", enough, least=1, most=MAX_SECONDS)
    flushes = whole_number(given, "FLUSHES", 0, least=1, most=1000)
    return Options(
        orders=orders,
        seed=whole_number(given, "SEED", secrets.randbelow(MAX_SEED), least=0, most=MAX_SEED),
        seconds=seconds,
        strikes=whole_number(given, "STRIKES", seconds // SECONDS_PER_STRIKE, least=0, most=MAX_STRIKES),
        flushes=flushes or None,
    )
