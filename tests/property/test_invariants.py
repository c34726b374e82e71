"""The promises of a delivery, in any order of events: a real ledger, real runs, and an engine that forgets, rolls back and is tampered with."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from homing.config.settings import Settings
from tests.property.world import World, world_of

EXAMPLES = int(os.environ.get("INVARIANT_EXAMPLES", "15"))
"""How many stories are told; thousands where somebody asks for them."""

STEP_SECONDS = 20
"""The longest a step may take on a busy machine: no step waits for anybody."""

STEPS = (
    ("record", "relay", "relay", "relay_dies", "sweep", "sweep")
    + ("claim",) * 6
    + ("succeed", "succeed", "succeed", "err", "refuse", "refuse", "finish", "finish", "finish", "kill")
    + ("lose_leases", "flush", "save", "save", "restore", "restore")
    + ("redrive", "retry_in_place", "retry_in_place", "swallow", "cancel")
)
STORIES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), min_size=8, max_size=40)


BEGIN = [("claim", 0), ("claim", 0)]
LATE_SUCCESS = [*BEGIN, ("lose_leases", 0), *BEGIN, ("refuse", 2), ("finish", 0), ("succeed", 0), ("succeed", 0)]
CANCELLED_AND_REFUSED = [*BEGIN, ("cancel", 0), ("cancel", 1), ("refuse", 0), ("refuse", 0)]
CANCELLED_AND_DONE = [*BEGIN, ("cancel", 0), ("cancel", 1), ("succeed", 0), ("succeed", 0)]
KILLED_UNHEARD = [*BEGIN, ("succeed", 0), ("succeed", 0), ("kill", 0), ("kill", 0), ("lose_leases", 0), *BEGIN]
DONE = [*BEGIN, ("succeed", 0), ("finish", 0), ("succeed", 0), ("finish", 0)]
CAME_BACK_UNNOTICED = [("save", 0), *DONE, ("restore", 1), *BEGIN]
DEAD = [("refuse", 0), ("finish", 0), ("refuse", 0), ("finish", 0)]
DIED_TWICE_AND_CAME_BACK = [
    *(*BEGIN, *DEAD, ("save", 0), ("retry_in_place", 0), ("claim", 0), ("refuse", 0), ("finish", 0)),
    *(
        ("restore", 1),
        ("retry_in_place", 0),
        ("retry_in_place", 0),
        *BEGIN,
        ("redrive", 0),
        ("redrive", 0),
        ("sweep", 0),
        *BEGIN,
    ),
]
FLUSHED_IN_THE_MIDDLE = [*BEGIN, ("flush", 0), ("sweep", 0), *BEGIN, ("refuse", 2), ("succeed", 0), ("succeed", 0)]


@pytest.fixture
def played(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[asyncio.Runner, World]]:
    """A world, and the loop that it lives in."""
    monkeypatch.setattr("homing.worker.performing.LOCK_SECONDS", 0.15)  # a row that another run holds is not waited for
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        context = world_of(settings)
        world = runner.run(context.__aenter__())
        yield runner, world
        runner.run(context.__aexit__(None, None, None))


async def tell(world: World, story: list[tuple[str, int]]) -> None:
    await world.begin_anew()
    await world.record()
    await world.relay()
    for step, which in story:
        async with asyncio.timeout(STEP_SECONDS):
            await getattr(world, step)(which)
            await world.check()
    await world.settle_down()


@pytest.mark.timeout(120 + 4 * EXAMPLES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=STORIES)
@example(story=LATE_SUCCESS)
@example(story=CANCELLED_AND_REFUSED)
@example(story=CANCELLED_AND_DONE)
@example(story=KILLED_UNHEARD)
@example(story=CAME_BACK_UNNOTICED)
@example(story=DIED_TWICE_AND_CAME_BACK)
@example(story=FLUSHED_IN_THE_MIDDLE)
def test_promises_hold_in_every_story(played: tuple[asyncio.Runner, World], story: list[tuple[str, int]]) -> None:
    """After every step: one effect where the row says done and none elsewhere, settled states stay, letters and rows agree; in the end all arrive."""
    runner, world = played
    runner.run(tell(world, story))
