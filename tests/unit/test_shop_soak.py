"""The soak's arithmetic: its plan, its numbers, and when it must not be believed."""

from collections import Counter
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from homing.errors import ConfigurationError
from shop.soak.chaos import DEEDS
from shop.soak.options import read_options
from shop.soak.plan import Fault, Strike, draw_flushes, draw_plan, summarize
from shop.soak.verdict import Outcome, complaints, count
from shop.trial.facts import Facts, OrderFacts
from shop.trial.options import Trial

ORDER = OrderFacts(
    id=UUID(int=1),
    total=250_000,
    captured=True,
    captures=1,
    shipped=True,
    parcels=1,
    parcels_due=1,
    emailed=True,
    messages=1,
    invoices=1,
    points=25,
)
PLAN = tuple(Strike(number, fault, 0.5) for number, fault in enumerate(Fault))
GOOD = Outcome(
    seed=7,
    facts=Facts(
        wanted=2, orders=(ORDER, ORDER), dead=0, unsettled=0, redelivered=5, redispatched=9, duplicates_skipped=1
    ),
    plan=PLAN,
    struck=Counter(Fault),
    asked_again=3,
    pruned=4,
    troubles=(),
    strange_ends=(),
    missing_pieces={},
    orders_in_all=2,
    holds=2,
    open_ends=(),
)


def _dice(seed: int) -> Random:
    return Trial(seed=seed).dice("faults")


def test_the_same_seed_plans_the_same_faults() -> None:
    """A failure can be played again: moments, faults and victims follow from the seed alone."""
    plans = [draw_plan(_dice(seed), seconds=60, strikes=40) for seed in (7, 7, 8)]
    assert plans[0] == plans[1] != plans[2]


@pytest.mark.parametrize("strikes", [0, 16, 17, 100])
def test_a_plan_has_every_fault_and_keeps_to_its_time(strikes: int) -> None:
    """However few strikes were asked for, each fault happens; no fault happens much more often than another."""
    plan = draw_plan(_dice(1), seconds=60, strikes=strikes)
    counted = Counter(strike.fault for strike in plan)
    assert set(counted) == set(Fault)
    assert max(counted.values()) - min(counted.values()) <= 1
    assert [strike.at_seconds for strike in plan] == sorted(strike.at_seconds for strike in plan)
    assert all(0 <= strike.at_seconds <= 60 for strike in plan)


def test_flushes_alone() -> None:
    """The proof of the flushes lets nothing else fail."""
    plan = draw_flushes(_dice(1), seconds=60, flushes=20)
    assert [strike.fault for strike in plan] == [Fault.VALKEY_FLUSHED] * 20
    assert summarize(plan) == ["  20 × Valkey flushed"]


def test_every_fault_has_a_deed() -> None:
    """What can be planned can be done."""
    assert set(DEEDS) == set(Fault)


def test_a_good_run_has_nothing_to_complain_about() -> None:
    """Everything once under every fault: the line for machines says so."""
    ledger = count(GOOD)
    assert complaints(ledger, GOOD) == []
    assert ledger.line() == (
        "ledger: orders=2 captured_once=2 captured_twice=0 lost=0 emails_missing=0 invoices_missing=0 shipments=2 points_ok=2 redelivered=5 "
        "duplicates_skipped=1 redispatched=9 asked_again=3 kills=3 freezes=2 flushes=1 valkey_kills=1 valkey_freezes=1 valkey_cuts=1 postgres_restarts=1 "
        "postgres_crashes=1 partner_faults=5 pruned=4 seed=7"
    )


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (replace(GOOD, facts=replace(GOOD.facts, orders=(ORDER,))), "1 orders were lost"),
        (
            replace(GOOD, facts=replace(GOOD.facts, orders=(ORDER, replace(ORDER, captures=2)))),
            "1 orders were captured twice",
        ),
        (replace(GOOD, facts=replace(GOOD.facts, dead=1)), "1 deliveries are dead"),
        (replace(GOOD, facts=replace(GOOD.facts, redelivered=0, redispatched=0)), "nothing is proven: nothing had"),
        (replace(GOOD, pruned=0), "nothing is proven: no event was pruned"),
        (replace(GOOD, struck=Counter(Fault) - Counter([Fault.VALKEY_FLUSHED])), "nothing is proven: of the plan"),
        (replace(GOOD, troubles=("order 1 was not accepted",)), "order 1 was not accepted"),
        (replace(GOOD, strange_ends=("1 × worker ended",)), "1 × worker ended"),
        (replace(GOOD, missing_pieces={"tea": 1}), "neither sold nor on the shelves"),
        (replace(GOOD, orders_in_all=3), "3 orders are in the database"),
        (replace(GOOD, holds=3), "3 holds at the gateway"),
    ],
)
def test_a_broken_promise_is_told(outcome: Outcome, told: str) -> None:
    """Each number that is not as promised is a complaint, and so is a plan that was not carried out."""
    wrong = complaints(count(outcome), outcome)
    assert any(words.startswith(told) for words in wrong), wrong


def test_options_come_from_variables_and_arguments() -> None:
    """Arguments win; the time follows from the orders unless it is given; a seed is drawn unless it is given."""
    options = read_options(["--orders", "20"], {"ORDERS": "50", "SEED": "7", "SECONDS": "30"})
    assert (options.orders, options.seed, options.seconds, options.flushes) == (20, 7, 30, None)
    assert (options.strikes, read_options(["--strikes=99"], {}).strikes) == (10, 99)
    assert read_options(["--flushes", "20"], {}).flushes == 20
    drawn = [read_options([], {}) for _ in range(2)]
    assert (drawn[0].orders, drawn[0].seconds) == (3000, 272)
    assert drawn[0].seed != drawn[1].seed


@pytest.mark.parametrize("argument", ["--orders=0", "--seed=x", "--seconds=-1", "--flushes=2000"])
def test_a_wrong_option_is_named(argument: str) -> None:
    """The error names the option and what it holds."""
    name, _, value = argument.removeprefix("--").partition("=")
    with pytest.raises(ConfigurationError, match=f"{name.upper()}='{value}'"):
        read_options([argument], {})
