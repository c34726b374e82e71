"""Whole groups: a lane that gets one back claims the next at once where it has the room, and never for what comes back in parts."""

import pytest

from homing.clock import SystemClock
from homing.queue.memory import MemoryEngine
from homing.worker.lanes import Lane, group_of


def lane_of(concurrency: int) -> tuple[Lane, list[str]]:
    """A lane that has all its slots free, and what it has told."""
    told: list[str] = []
    lane = Lane(
        "mail",
        concurrency=concurrency,
        limit=None,
        engine=MemoryEngine(),
        begin=lambda jobs, owner: None,
        lease_seconds=30.0,
        worker="w",
        clock=SystemClock(),
        on_change=lambda: told.append("look"),
    )
    return lane, told


@pytest.mark.parametrize(
    ("concurrency", "running", "back", "waiting", "looks"),
    [
        (256, 256, 64, False, True),
        (256, 256, 63, False, False),
        (256, 256, 63, True, False),  # not even the room of a group
        (256, 128, 1, True, True),
        (256, 1, 1, False, False),  # a lonely job: what comes after it comes with its end
    ],
)
async def test_a_whole_group_that_came_back_is_followed_at_once(
    concurrency: int, running: int, back: int, *, waiting: bool, looks: bool
) -> None:
    """Parts of one, and a lonely job, bring no claim: what comes after them comes with their end."""
    lane, told = lane_of(concurrency)
    lane.running = running
    lane.returned(back, waiting=waiting)
    assert bool(told) is looks
    assert (lane.running, lane.ending) == (running - back, back)


@pytest.mark.parametrize(("concurrency", "most"), [(1, 0), (4, 3), (100, 99), (256, 255), (1000, 400)])
async def test_ends_beyond_what_may_wait_hold_slots(concurrency: int, most: int) -> None:
    """As many as there are slots but one, and 400 at most, wait for the ledger without one."""
    lane, _ = lane_of(concurrency)
    lane.ending = most
    assert lane.free == concurrency
    lane.ending = most + 1
    assert lane.free == concurrency - 1


@pytest.mark.parametrize(
    ("concurrency", "together"),
    [(1, 1), (50, 50), (51, 26), (100, 50), (200, 50), (256, 64), (400, 100), (401, 81), (1000, 100)],
)
def test_slots_are_whole_groups(concurrency: int, together: int) -> None:
    """Four groups at least where each can have fifty jobs, and never more than a hundred jobs in one."""
    assert group_of(concurrency) == together
