"""Knobs: what they accept, and how they decide."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shop.providers.controls import Controls, ThrottledError, never
from shop.providers.knobs import Aftermath, Arrival, Dice, KnobError, Knobs, spend
from shop.providers.rate import WINDOW_SECONDS, SlidingWindow, busiest_second

OPERATIONS = ("capture", "void")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"latancy_ms": 5}, "unknown knob 'latancy_ms'; did you mean 'latency_ms'?"),
        ({"xyz": 5}, "unknown knob 'xyz'; the knobs are"),
        ({"latency_ms": -1}, "'latency_ms' cannot be -1"),
        ({"latency_ms": "fast"}, "'latency_ms' cannot be 'fast'"),
        ({"refuse": -2}, "'refuse' cannot be -2"),
        ({"refuse": 1.5}, "'refuse' cannot be 1.5"),
        ({"refuse": 1.0}, "write true for every call"),
        ({"hang": "often"}, "'hang' cannot be 'often'"),
        ({"throttle": 0}, "'throttle' cannot be 0"),
        ({"refuse_status": 200}, "'refuse_status' cannot be 200"),
        ({"fail_with": "smoke"}, "'fail_with' cannot be 'smoke'"),
        ({"only": ["capture", "refund"]}, "unknown operation 'refund'; choose from capture, void"),
    ],
)
def test_a_wrong_knob_is_named(changes: dict[str, object], named: str) -> None:
    """A knob that does not exist or cannot have its value is refused with its name, its value and a remedy."""
    with pytest.raises(KnobError) as refused:
        Knobs().turned(changes, OPERATIONS)
    assert named in str(refused.value)


def test_turning_some_knobs_keeps_the_others() -> None:
    """A change touches only the knobs it names, and the old set stays as it was."""
    before = Knobs(latency_ms=7, refuse=0.5)
    after = before.turned({"refuse": 3, "only": "capture,void"}, OPERATIONS)
    assert (after.latency_ms, after.refuse, after.only) == (7, 3, ("capture", "void"))
    assert before.refuse == 0.5


def test_the_next_n_calls_and_no_more_are_hit() -> None:
    """A whole number hits exactly that many calls."""
    dice = Dice(Knobs(refuse=2))
    assert [dice.arrival("capture").refuse for _ in range(4)] == [True, True, False, False]
    assert dice.knobs.refuse == 0


def test_true_hits_every_call_and_false_none() -> None:
    """`true` stays on until it is turned off."""
    always, nothing = Dice(Knobs(hang=True)), Dice(Knobs(hang=False))
    assert [always.arrival("capture") for _ in range(3)] == [Arrival(hang=True)] * 3
    assert nothing.arrival("capture") == Arrival()


def test_same_seed_same_troubles_whatever_else_is_on() -> None:
    """The dice depend on the seed alone: another trouble beside does not shift them, another seed does."""
    alone, beside, other = (
        Dice(Knobs(fail_after_effect=0.3, seed=5)),
        Dice(Knobs(fail_after_effect=0.3, hang_after_effect=0.5, seed=5)),
        Dice(Knobs(fail_after_effect=0.3, seed=6)),
    )
    first, second, third = ([dice.aftermath("capture").fail for _ in range(200)] for dice in (alone, beside, other))
    assert first == second != third
    assert 30 < first.count("error") < 90


def test_troubles_stay_with_the_operations_they_are_meant_for() -> None:
    """With `only`, other operations neither suffer nor use up a count."""
    dice = Dice(Knobs(fail_after_effect=1, fail_with="cut", only=("capture",)))
    assert dice.aftermath("void") == Aftermath()
    assert dice.aftermath("capture") == Aftermath(fail="cut")


@given(st.integers(0, 5), st.lists(st.floats(0, 1, exclude_max=True), max_size=12))
def test_a_count_is_spent_call_by_call(count: int, rolls: list[float]) -> None:
    """However the dice fall, N calls are hit as long as there are N, and nothing goes below zero."""
    when: bool | float = count
    hits = 0
    for roll in rolls:
        hit, when = spend(when, roll)
        hits += hit
    assert hits == min(count, len(rolls))
    assert when == count - hits


def _admitted(limit: int, gaps: list[float]) -> list[float]:
    window, now, admitted = SlidingWindow(), 0.0, []
    for gap in gaps:
        now += gap
        wait = window.admit(now, limit)
        assert wait is None or 1 <= wait <= 2
        if wait is None:
            admitted.append(now)
    return admitted


@given(st.integers(1, 5), st.lists(st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.999, 1.0, 3.0]), max_size=60))
def test_no_second_holds_more_than_the_limit(limit: int, gaps: list[float]) -> None:
    """Whatever the rhythm of the calls, no window of one second admits more than the limit."""
    admitted = _admitted(limit, gaps)
    assert busiest_second(admitted) <= limit
    for earlier, later in zip(admitted, admitted[limit:], strict=False):
        assert later - earlier >= WINDOW_SECONDS


def test_the_whole_limit_can_be_used() -> None:
    """Calls spread evenly at the limit are all admitted."""
    assert len(_admitted(4, [0.25] * 40)) == 40


async def test_each_caller_has_a_limit_of_its_own() -> None:
    """One API key that used up its second leaves the others alone."""
    controls = Controls(Knobs(throttle=1), OPERATIONS, monotonic=lambda: 100.0)
    await controls.arrive("capture", "key-a", never)
    with pytest.raises(ThrottledError) as throttled:
        await controls.arrive("capture", "key-a", never)
    await controls.arrive("capture", "key-b", never)
    assert throttled.value.retry_after_seconds == 1
    assert controls.injected["throttled"] == 1


async def test_reset_brings_back_the_first_knobs_and_dice() -> None:
    """After a reset the provider behaves exactly as after its start."""
    controls = Controls(Knobs(fail_after_effect=0.5, seed=9), OPERATIONS)
    before = [controls.aftermath("void") for _ in range(50)]
    controls.turn({"fail_after_effect": 0, "latency_ms": 50})
    controls.reset()
    assert controls.knobs == Knobs(fail_after_effect=0.5, seed=9)
    assert [controls.aftermath("void") for _ in range(50)] == before


async def test_turning_another_knob_does_not_release_what_hangs() -> None:
    """A held call goes on only when its hang is turned off, not because a count of it ran out."""
    controls = Controls(Knobs(hang=1), OPERATIONS)
    held = asyncio.ensure_future(controls.arrive("capture", "", never))
    assert await controls.wait_until_held(1, timeout_seconds=5)
    controls.turn({"latency_ms": 1})
    assert not await controls.wait_until_held(2, timeout_seconds=0.01)
    assert not held.done()
    controls.turn({"hang": 0})
    await asyncio.wait_for(held, 60)
    assert controls.held == 0


def test_the_seed_is_not_the_global_one() -> None:
    """Dice never touch the random numbers of the process they live in."""
    random.seed(1)
    state = random.getstate()
    Dice(Knobs(refuse=0.5)).arrival("capture")
    assert random.getstate() == state
