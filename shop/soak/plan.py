"""What will go wrong and when: drawn from a seed before anything starts. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random


class Fault(Enum):
    """Everything that happens to the shop; the value is what is told when it has happened."""

    WORKER_KILLED = "worker killed"
    RELAY_KILLED = "relay killed"
    API_KILLED = "API killed"
    WORKER_FROZEN = "worker frozen past its leases"
    RELAY_FROZEN = "relay frozen"
    VALKEY_FLUSHED = "Valkey flushed"
    VALKEY_KILLED = "Valkey killed"
    VALKEY_FROZEN = "Valkey frozen past its leases"
    VALKEY_CUT_SHORT = "Valkey killed, the end of its log lost"
    POSTGRES_RESTARTED = "PostgreSQL restarted, fast"
    POSTGRES_CRASHED = "PostgreSQL restarted, immediate"
    GATEWAY_LIES = "gateway fails after the effect"
    GATEWAY_HANGS = "gateway hangs"
    CARRIER_LIES = "carrier fails after the effect"
    CARRIER_THROTTLES = "carrier throttles"
    MAIL_LIES = "mail server fails after the effect"


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault at its moment; `pick`, from 0 up to 1, chooses the victim and the amount."""

    at_seconds: float
    fault: Fault
    pick: float


def draw_plan(dice: Random, *, seconds: float, strikes: int) -> tuple[Strike, ...]:
    """Every fault at least once, all about equally often, at random moments of the time given; the same dice give the same plan."""
    faults: list[Fault] = []
    while len(faults) < max(strikes, len(Fault)):
        faults += dice.sample(list(Fault), len(Fault))
    return _scatter(dice, faults[: max(strikes, len(Fault))], seconds)


def draw_flushes(dice: Random, *, seconds: float, flushes: int) -> tuple[Strike, ...]:
    """Nothing but flushes, at random moments."""
    return _scatter(dice, [Fault.VALKEY_FLUSHED] * flushes, seconds)


def summarize(plan: Sequence[Strike]) -> list[str]:
    """How often each fault will happen, one line each."""
    counted = Counter(strike.fault for strike in plan)
    return [f"{counted[fault]:>4} × {fault.value}" for fault in Fault if counted[fault]]


def _scatter(dice: Random, faults: Sequence[Fault], seconds: float) -> tuple[Strike, ...]:
    moments = sorted(dice.uniform(0.0, 0.9 * seconds) for _ in faults)  # the last orders come after the last fault
    return tuple(Strike(moment, fault, dice.random()) for moment, fault in zip(moments, faults, strict=True))
