"""Workers that die or freeze in the middle of a run."""

import signal

import pytest

from homing import Event
from tests.crash.app import Asked, AskedLeast
from tests.crash.children import Children
from tests.crash.conftest import Scene


async def test_worker_killed_in_a_transaction_leaves_one_effect(processes: Children, scene: Scene) -> None:
    """SIGKILL inside a handler's transaction: nothing of it stays, another worker does it, within lease and rescue."""
    first = processes.worker()
    await first.ready()
    await scene.record(Asked(gate="hold"))
    await scene.reached("runs", 1)
    first.kill()
    await scene.open("hold")
    await processes.worker().ready()
    await scene.settled()
    assert await scene.count("effects") == 1
    assert await scene.count("runs") == 2
    assert await scene.attempts() == [1, 1]  # a crash is no failure of the handler
    assert await scene.outcomes() == {"done"}


async def test_worker_killed_without_a_transaction_runs_it_again(processes: Children, scene: Scene) -> None:
    """SIGKILL in the middle of a handler that runs at least once: it runs again, and its delivery is done."""
    first = processes.worker()
    await first.ready()
    await scene.record(AskedLeast(gate="hold"))
    await scene.reached("runs", 1)
    first.kill()
    await scene.open("hold")
    await processes.worker().ready()
    await scene.settled()
    assert await scene.count("effects") == 1
    assert await scene.count("runs") == 2
    assert await scene.outcomes() == {"done"}


@pytest.mark.parametrize("event", [Asked(gate="hold"), AskedLeast(gate="hold")], ids=["once", "at least once"])
async def test_frozen_worker_can_change_nothing_when_it_wakes(processes: Children, scene: Scene, event: Event) -> None:
    """SIGSTOP for longer than the lease, then SIGCONT: the job runs elsewhere, and the old run adds no effect of a transaction."""
    frozen = processes.worker()
    await frozen.ready()
    await scene.record(event)
    await scene.reached("runs", 1)
    frozen.signal(signal.SIGSTOP)
    other = processes.worker()
    await other.ready()
    is_once = isinstance(event, Asked)
    if is_once:  # the frozen transaction holds the row: the other worker meets the lock, and must not wait for ever
        await other.says("lost its worker")
    else:
        await scene.reached("runs", 2)
    frozen.signal(signal.SIGCONT)
    await scene.open("hold")
    await scene.settled()
    assert await scene.outcomes() == {"done"}
    if is_once:
        assert await scene.count("effects") == 1
    for child in (frozen, other):
        child.signal(signal.SIGTERM)
        assert await child.ended() == 0
    assert await scene.sql.fetchval("SELECT count(*) FROM homing.dead_letters") == 0
