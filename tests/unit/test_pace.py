"""How fast queues are looked at, and how long a failing one rests."""

import time

from homing.clock import ManualClock, SystemClock
from homing.durations import seconds
from homing.relay.backing import FIRST_SECONDS, LONGEST_SECONDS, BackOff
from homing.relay.pace import Pace


async def test_a_backlog_is_looked_at_no_faster_than_the_rate() -> None:
    """After the first page permits come at the rate, a page never asks for more than itself, and a rest saves up one page."""
    pace = Pace(2000, SystemClock())
    began, rows = time.monotonic(), 0
    while rows < 210:
        permitted = await pace.permit("q", 10)
        assert 1 <= permitted <= 10
        pace.spend("q", permitted)
        rows += permitted
    assert time.monotonic() - began >= (rows - 10) / 2000 * 0.99


async def test_queues_have_permits_of_their_own() -> None:
    """A queue with a backlog takes nothing from the others, and after a rest there is one page at once."""
    clock = ManualClock()
    pace = Pace(1, clock)
    assert await pace.permit("a", 50) == 50
    pace.spend("a", 50)
    assert await pace.permit("b", 50) == 50
    clock.advance(seconds(1000))
    assert await pace.permit("a", 50) == 50


def test_a_failing_queue_rests_ever_longer_up_to_a_bound() -> None:
    """Each failure doubles the rest; failures of the same rest count once; one success forgets them, and other queues never rest."""
    clock = ManualClock()
    back_off = BackOff(clock)
    rests = []
    for _ in range(8):
        back_off.fail("bad")
        back_off.fail("bad")
        assert not back_off.holds("good")
        rested = 0.0
        while back_off.holds("bad"):
            clock.advance(seconds(FIRST_SECONDS) / 2)
            rested += FIRST_SECONDS / 2
        rests.append(rested)
    assert rests == [0.5, 1, 2, 4, 8, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS]
    back_off.succeed("bad")
    back_off.fail("bad")
    clock.advance(seconds(FIRST_SECONDS))
    assert not back_off.holds("bad")
