"""The demonstration's arithmetic: what it counts, and when it must not be believed."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from homing.errors import ConfigurationError
from shop.demo.options import Options, read_options
from shop.demo.verdict import Ledger, complaints, count
from shop.trial.children import read_line
from shop.trial.customers import purchases
from shop.trial.facts import Facts, OrderFacts, Progress
from shop.trial.telling import delivered_again, dispatched_again, finished_runs

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
GOOD = Facts(wanted=2, orders=(ORDER, ORDER), dead=0, unsettled=0, redelivered=5, redispatched=0, duplicates_skipped=1)


def _with(**changes: object) -> Facts:
    return replace(GOOD, orders=(ORDER, replace(ORDER, **changes)))  # type: ignore[arg-type]  # names checked by replace


def _counted(facts: Facts, kills: int = 3) -> tuple[Ledger, list[str]]:
    ledger = count(facts, kills)
    return ledger, complaints(ledger, facts)


def test_a_good_run_has_nothing_to_complain_about() -> None:
    """Everything once, work that was started again, three kills: the line for machines says so."""
    ledger, wrong = _counted(GOOD)
    assert wrong == []
    assert ledger.line() == (
        "ledger: orders=2 captured_once=2 captured_twice=0 lost=0 emails_missing=0 invoices_missing=0 shipments=2 points_ok=2 "
        "redelivered=5 duplicates_skipped=1 kills=3"
    )


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (_with(captures=2), "1 orders were captured twice"),
        (_with(captured=False), "1 orders were lost"),
        (_with(captures=0), "1 orders were lost"),
        (_with(shipped=False), "1 orders were lost"),
        (_with(parcels=0), "1 orders were lost"),
        (_with(parcels=2), "3 shipments for 2 parcels"),
        (_with(parcels_due=2), "1 orders were lost"),
        (_with(invoices=0), "1 invoices were never sent"),
        (_with(messages=0), "1 confirmations were never sent"),
        (_with(points=24), "points are right for 1 of 2"),
        (_with(points=50), "points are right for 1 of 2"),
        (replace(GOOD, orders=(ORDER,)), "1 orders were lost"),
        (replace(GOOD, unsettled=1), "1 deliveries are unfinished"),
        (replace(GOOD, dead=1), "1 deliveries are dead"),
        (replace(GOOD, redelivered=0), "nothing is proven"),
    ],
)
def test_a_broken_promise_is_told(facts: Facts, told: str) -> None:
    """Each number that is not as promised is a complaint, and so is a run in which nothing went wrong."""
    _, wrong = _counted(facts)
    assert any(words.startswith(told) for words in wrong), wrong


def test_too_few_kills_prove_nothing() -> None:
    """Two dead workers are not enough."""
    assert _counted(GOOD, kills=2)[1] == ["nothing is proven: 2 workers were killed, fewer than 3"]


def test_two_e_mails_are_allowed() -> None:
    """At least once is the choice; twice is no complaint."""
    assert _counted(_with(messages=2))[1] == []


@pytest.mark.parametrize(
    ("progress", "finished"),
    [((8, 8, 0, 4), True), ((7, 8, 0, 4), False), ((4, 4, 0, 2), False), ((8, 8, 1, 5), False)],
)
def test_finished_means_every_delivery_of_every_order(progress: tuple[int, int, int, int], *, finished: bool) -> None:
    """Two orders make eight deliveries; what is not routed yet counts as work to come."""
    assert Progress(*progress).finished(2) is finished


def test_the_same_seed_orders_the_same_goods() -> None:
    """Only the run's own name differs, so that two runs on one database do not meet."""
    lines = [[purchase.body["lines"] for purchase in purchases(Options(seed=7, orders=20))] for _ in range(2)]
    assert lines[0] == lines[1]
    assert lines[0] != [purchase.body["lines"] for purchase in purchases(Options(seed=8, orders=20))]
    ids = {purchase.order_id for options in (Options(), Options()) for purchase in purchases(options)}
    assert len(ids) == 400


def test_options_come_from_the_environment() -> None:
    """ORDERS, SEED and KEEP, each with a default."""
    options = read_options({"ORDERS": "20", "SEED": "7", "KEEP": "1"})
    assert (options.orders, options.seed, options.keep) == (20, 7, True)
    defaults = read_options({"KEEP": ""})
    assert (defaults.orders, defaults.keep) == (200, False)


@pytest.mark.parametrize(("name", "value"), [("ORDERS", "0"), ("ORDERS", "many"), ("SEED", "-1"), ("KEEP", "yes")])
def test_a_wrong_option_is_named(name: str, value: str) -> None:
    """The error names the variable and what it holds."""
    with pytest.raises(ConfigurationError, match=f"{name}='{value}'"):
        read_options({name: value})


@pytest.mark.parametrize("line", [b"", b"Traceback\n", b'{"outcome": "comp', b"[]\n"])
def test_the_last_words_of_a_killed_worker_are_no_run(line: bytes) -> None:
    """Half a line, or a line of another kind, is passed over."""
    assert read_line(line) == {}


def test_the_logs_tell_what_was_done_again(tmp_path: Path) -> None:
    """A job with two starts, a delivery with two runs, what a relay dispatched again; half a line and a wait for children count for nothing."""
    events = [str(UUID(int=number)) for number in range(4)]
    runs = [
        {"event_id": events[0], "consumer": "a.b", "outcome": "completed", "starts": 1},
        {"event_id": events[1], "consumer": "a.b", "outcome": "completed", "starts": 2},
        {"event_id": events[2], "consumer": "a.b", "outcome": "completed", "starts": 1},
        {"event_id": events[2], "consumer": "a.b", "outcome": "duplicate", "starts": 1},
        {"event_id": events[3], "consumer": "a.b", "outcome": "waiting_children", "starts": 1},
        {"event_id": events[3], "consumer": "a.b", "outcome": "completed", "starts": 1},
        {"message": "worker ready"},
    ]
    told = {"message": f"queue a: 21 jobs gone, dispatched again; the first is {events[3]}.1.a.b"}
    (tmp_path / "worker-1.log").write_text("\n".join(map(json.dumps, runs)) + '\n{"outcome": "comp', encoding="utf-8")
    (tmp_path / "relay-1.log").write_text(json.dumps(told) + "\n", encoding="utf-8")
    finished = list(finished_runs(tmp_path))
    assert len(finished) == 6
    assert delivered_again(finished) == {f"{events[1]}.a.b", f"{events[2]}.a.b"}
    assert dispatched_again(tmp_path) == 21
