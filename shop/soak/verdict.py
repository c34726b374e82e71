"""What a soak counts beside the promises, and when it proves nothing. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from shop.soak.plan import Fault, Strike
from shop.trial import verdict
from shop.trial.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(verdict.Ledger):
    """The numbers that a soak ends with."""

    redispatched: int
    asked_again: int
    kills: int
    freezes: int
    flushes: int
    valkey_kills: int
    valkey_freezes: int
    valkey_cuts: int
    postgres_restarts: int
    postgres_crashes: int
    partner_faults: int
    pruned: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the run came to: the facts, and what was seen beside them.

    `troubles`: why the end was not waited for, and what customers say who have no answer.
    """

    seed: int
    facts: Facts
    plan: Sequence[Strike]
    struck: Counter[Fault]
    asked_again: int
    pruned: int
    troubles: Sequence[str]
    strange_ends: Sequence[str]
    missing_pieces: Mapping[str, int]
    orders_in_all: int
    holds: int
    open_ends: Sequence[str]


def count(outcome: Outcome) -> Ledger:
    """What was promised, and what happened meanwhile."""
    struck = outcome.struck
    return Ledger(
        **asdict(verdict.count(outcome.facts)),
        redispatched=outcome.facts.redispatched,
        asked_again=outcome.asked_again,
        kills=struck[Fault.WORKER_KILLED] + struck[Fault.RELAY_KILLED] + struck[Fault.API_KILLED],
        freezes=struck[Fault.WORKER_FROZEN] + struck[Fault.RELAY_FROZEN],
        flushes=struck[Fault.VALKEY_FLUSHED],
        valkey_kills=struck[Fault.VALKEY_KILLED],
        valkey_freezes=struck[Fault.VALKEY_FROZEN],
        valkey_cuts=struck[Fault.VALKEY_CUT_SHORT],
        postgres_restarts=struck[Fault.POSTGRES_RESTARTED],
        postgres_crashes=struck[Fault.POSTGRES_CRASHED],
        partner_faults=sum(struck[fault] for fault in PARTNER_FAULTS),
        pruned=outcome.pruned,
        seed=outcome.seed,
    )


PARTNER_FAULTS = (
    Fault.GATEWAY_LIES,
    Fault.GATEWAY_HANGS,
    Fault.CARRIER_LIES,
    Fault.CARRIER_THROTTLES,
    Fault.MAIL_LIES,
)


def complaints(ledger: Ledger, outcome: Outcome) -> list[str]:
    """What is wrong with this run, in words; empty for one that proves something and found nothing."""
    facts = outcome.facts
    missed = Counter(strike.fault for strike in outcome.plan) - outcome.struck
    found = {
        f"{outcome.orders_in_all} orders are in the database, {facts.wanted} were wanted": outcome.orders_in_all
        != facts.wanted,
        f"{outcome.holds} holds at the gateway for {facts.wanted} orders": outcome.holds != facts.wanted,
        f"neither sold nor on the shelves: {dict(outcome.missing_pieces)}": outcome.missing_pieces,
        "nothing is proven: nothing had to be done again": ledger.redelivered + ledger.redispatched == 0,
        "nothing is proven: no event was pruned": ledger.pruned == 0,
        f"nothing is proven: of the plan did not happen {[fault.value for fault in missed]}": missed,
    }
    told = [words for words, wrong in found.items() if wrong]
    return [*outcome.troubles, *verdict.broken_promises(ledger, facts), *outcome.strange_ends, *told]
