"""What a demonstration counts beside the promises, and when it proves nothing. Pure."""

from dataclasses import asdict, dataclass

from shop.trial import verdict
from shop.trial.facts import Facts

LEAST_KILLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(verdict.Ledger):
    """The numbers that a demonstration ends with."""

    kills: int


def count(facts: Facts, kills: int) -> Ledger:
    """What was promised, and how many workers died meanwhile."""
    return Ledger(**asdict(verdict.count(facts)), kills=kills)


def complaints(ledger: Ledger, facts: Facts) -> list[str]:
    """What is wrong with this run, in words; empty for one that proves something and found nothing."""
    unproven = {
        f"nothing is proven: {ledger.kills} workers were killed, fewer than {LEAST_KILLS}": ledger.kills < LEAST_KILLS,
        "nothing is proven: no delivery had to be started again": ledger.redelivered == 0,
    }
    return verdict.broken_promises(ledger, facts) + [words for words, true in unproven.items() if true]
