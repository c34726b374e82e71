"""What a campaign does next, how fast, and for which letters: decisions without servers."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from homing.deadletters.campaign import (
    PAGE,
    Campaign,
    Canary,
    Deaths,
    Pace,
    Pass,
    Step,
    Stop,
    Take,
    Terms,
    Wait,
    decide,
)
from homing.deadletters.filters import Filter
from homing.errors import Refused

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def campaign(*, redriven: int = 0, passed: bool = False, **terms: int | None) -> Campaign:
    """A running campaign."""
    return Campaign(
        id=UUID(int=1), filter=Filter(consumer="work.do"), terms=Terms(**terms), started_by="alice", reason="mended",  # type: ignore[arg-type]  # rate stays away
        state="running", last_letter=900, cursor=0, matched=500, redriven=redriven, refused={}, died_again=0,
        canary_passed=passed, started_at=NOW, ended_at=None, end_reason=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("running", "deaths", "canary", "expected"),
    [
        (campaign(), Deaths(), None, Take(PAGE)),
        (campaign(redriven=400), Deaths(worst=9, worst_fingerprint="f"), None, Take(PAGE)),
        (
            campaign(redriven=400),
            Deaths(worst=10, worst_fingerprint="f"),
            None,
            Stop("10 deliveries died again of f (stop after 10)"),
        ),
        (campaign(redriven=400, stop_after=None), Deaths(worst=400, worst_fingerprint="f"), None, Take(PAGE)),
        (campaign(canary=5), Deaths(), Canary(unsettled=0, died=0), Take(5)),
        (campaign(canary=500), Deaths(), Canary(unsettled=0, died=0), Take(PAGE)),
        (campaign(canary=5, redriven=3), Deaths(), Canary(unsettled=3, died=0), Take(2)),
        (
            campaign(canary=5, redriven=3),
            Deaths(),
            Canary(unsettled=1, died=2),
            Stop("2 of the first 3 died again (canary 5)"),
        ),
        (campaign(canary=5, redriven=5), Deaths(), Canary(unsettled=1, died=0), Wait()),
        (campaign(canary=5, redriven=5), Deaths(), Canary(unsettled=0, died=0), Pass()),
        (campaign(canary=5, redriven=5, passed=True), Deaths(), None, Take(PAGE)),
        (campaign(canary=5, redriven=9, passed=True), Deaths(worst=10, worst_fingerprint="f"), None, Stop("10 deliveries died again of f (stop after 10)")),
    ],
)  # fmt: skip
def test_the_next_step(running: Campaign, deaths: Deaths, canary: Canary | None, expected: Step) -> None:
    """Deaths stop it first; then the canary goes, is waited for and lets the rest through."""
    assert decide(running, deaths, canary) == expected


def test_the_pace_is_that_of_real_time() -> None:
    """One letter at once, then the rate; time without a step is made up for two seconds at most, and a slow rate is kept too."""
    pace = Pace(10, now=100.0)
    assert pace.allowance(100.0) == 1
    pace.spend(1)
    assert pace.allowance(100.05) == 0
    assert pace.allowance(100.5) == 5
    pace.spend(5)
    assert pace.allowance(200.0) == 20
    slow = Pace(0.1, now=0.0)
    slow.spend(slow.allowance(0.0))
    assert (slow.allowance(9.0), slow.allowance(10.0), slow.allowance(99.0)) == (0, 1, 1)


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": float("nan")}, {"canary": -1}, {"stop_after": 0}])
def test_terms_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    """The text names the value."""
    with pytest.raises(ValueError, match=rf"{next(iter(wrong))}={next(iter(wrong.values()))} "):
        Terms(**wrong)  # type: ignore[arg-type]  # that is the point


def test_a_filter_survives_its_row() -> None:
    """What a campaign keeps of its filter is the filter."""
    full = Filter(consumer="a.b", queue="a", kind="failed", fingerprint="f", error_class="E", error_text="t", since=NOW, until=NOW + timedelta(days=1), ids=(3, 1))  # fmt: skip
    for chosen in (full, Filter(everything=True), Filter(error_text="503"), Filter(ids=())):
        assert Filter.from_json(chosen.as_json()) == chosen
    assert Filter(error_text="503").as_json() == {"error_text": "503"}


def test_a_filter_must_choose() -> None:
    """Nothing and everything are told apart, and a time without a zone is no choice."""
    Filter(everything=True).require_choice()
    Filter(ids=(7,)).require_choice()
    with pytest.raises(Refused, match="an empty filter would take every dead letter"):
        Filter().require_choice()
    with pytest.raises(Refused, match="contradict each other"):
        Filter(everything=True, queue="a").require_choice()
    with pytest.raises(ValueError, match="has no time zone"):
        Filter(since=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point
