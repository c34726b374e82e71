"""The differential test: the same calls through our engine and through npm's BullMQ leave the same keys."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from redis import Redis

from tests.interop.any_calls import CALLS, OF_A_RUN, ONLY_NEW, Call
from tests.interop.node import Node, NodeProcess
from tests.interop.ours import ClockedEngine, Ours
from tests.interop.player import QUEUES
from tests.interop.same import by_job, unexplained
from tests.interop.scenarios import SCENARIOS, SEVERAL, Scenario
from tests.interop.theirs import Theirs

EXAMPLES = int(os.environ.get("INTEROP_EXAMPLES", "0"))
"""How many random ones to play; without that the same few each time, so that nobody's build meets a new one."""
EXAMPLE = itertools.count()


def named(scenario: Scenario) -> str:
    """A scenario in words."""
    return scenario.__name__.replace("_", " ")


@asynccontextmanager
async def both(node: Node, redis_url: str, redis_prefix: str) -> AsyncIterator[tuple[Ours, Theirs]]:
    """Both players, on queues that hold the same: BullMQ's first words in `meta`."""
    with Redis.from_url(redis_url, decode_responses=True) as client:
        engine = ClockedEngine(redis_url, prefix=f"{redis_prefix}:ours")
        theirs = Theirs(client, node, f"{redis_prefix}:node")
        await theirs.open()
        for queue in QUEUES:
            meta: Any = client.hgetall(f"{redis_prefix}:node:{queue}:meta")
            client.hset(f"{redis_prefix}:ours:{queue}:meta", mapping=meta)
        yield Ours(client, engine, f"{redis_prefix}:ours"), theirs
        await node.clock(None)
        await engine.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
async def test_the_same_calls_leave_the_same_keys(
    node: Node, redis_url: str, redis_prefix: str, scenario: Scenario
) -> None:
    """After every call: fields of hashes, order of lists, members and scores of sets, entries of the stream, settings."""
    async with both(node, redis_url, redis_prefix) as (ours, theirs):
        await scenario(ours)
        await scenario(theirs)
    told = unexplained(ours.story, theirs.story)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("scenario", SEVERAL, ids=named)
async def test_several_jobs_at_once_leave_the_same_keys(
    node: Node, redis_url: str, redis_prefix: str, scenario: Scenario
) -> None:
    """A script of ours that moves several jobs leaves what as many calls of BullMQ's leave; events are in order for each job."""
    async with both(node, redis_url, redis_prefix) as (ours, theirs):
        await scenario(ours)
        await scenario(theirs)
    told = unexplained(by_job(ours.story), by_job(theirs.story))
    assert not told, "\n".join(told)


@given(calls=CALLS)
@settings(
    deadline=None,
    max_examples=EXAMPLES or 20,
    derandomize=not EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.timeout(120 + 2 * EXAMPLES)
def test_any_calls_leave_the_same_keys(
    node_process: NodeProcess, redis_url: str, redis_prefix: str, calls: list[Call]
) -> None:
    """So do calls in any order, whoever holds which lease."""
    asyncio.run(play_both(calls, node_process, redis_url, redis_prefix))


async def play_both(calls: list[Call], process: NodeProcess, redis_url: str, prefix: str) -> None:
    """Play them one after the other; a number means a job that was claimed before, where there is one."""
    node = Node(process, redis_url, f"{prefix}:{next(EXAMPLE)}")
    async with both(node, redis_url, node.prefix) as players:
        for player in players:
            for call, args, terms in calls:
                if call in ONLY_NEW and any(map(player.knows, args)):
                    continue
                if call == "drain" and player.tick_waits():
                    continue  # BullMQ's script leaves another job's id in its place
                if call not in OF_A_RUN:
                    await player.play(call, *args, **terms)
                elif player.claimed:
                    await player.play(call, args[0] % len(player.claimed), *args[1:], **terms)
        told = unexplained(players[0].story, players[1].story)
        assert not told, "\n".join(told)
    await node.close()
