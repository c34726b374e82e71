"""A worker whose event loop, or one loop on it, does not turn any more: it says so, loses nothing, and ends when it cannot work."""

import subprocess
import sys
from pathlib import Path

from tests.crash.children import LEAST_APP, Children
from tests.crash.conftest import Scene
from tests.crash.least_app import AskedLeast
from tests.waiting import until

APP = LEAST_APP


async def test_handler_that_blocks_for_three_leases_is_named_and_runs_once(
    processes: Children, scene: Scene, tmp_path: Path
) -> None:
    """The line says which handler blocks, where and for how long; its lease is renewed meanwhile, and no other worker takes the job."""
    gate = tmp_path / "gate"
    worker = processes.worker(HOMING_WORKER_QUEUES="least")
    await worker.ready()
    await scene.record(AskedLeast(mood=str(gate)))
    await scene.reached("runs", 1)
    rescuer = processes.worker()
    await rescuer.ready()
    await worker.says("in block_until")
    began = await scene.sql.fetchval("SELECT max(at) FROM runs")

    async def three_leases_have_passed() -> bool:
        return bool(await scene.sql.fetchval("SELECT clock_timestamp() - $1::timestamptz > interval '4.5 s'", began))

    await until(three_leases_have_passed, what="three leases have passed")
    gate.touch()
    await worker.says("the event loop turns again; it was blocked for")
    await scene.settled()
    assert await scene.attempts() == [1]
    assert await scene.count("effects") == 1
    assert "lost its worker" not in rescuer.log
    told = [line for line in worker.log.splitlines() if "has not turned" in line]
    (line,) = [line for line in told if "in block_until" in line]
    assert "tests/crash/least_app.py" in line
    assert "do_at_least_once" in line
    assert worker.code is None


async def test_handler_that_blocks_for_ever_ends_its_worker(processes: Children, scene: Scene, tmp_path: Path) -> None:
    """No time-out can end a run that blocks the event loop: the process ends with 76, and another worker does the job."""
    worker = processes.worker(HOMING_ATTEMPT_TIMEOUT="2s")
    await worker.ready()
    await scene.record(AskedLeast(mood=str(tmp_path / "never")))
    await scene.reached("runs", 1)
    assert await worker.ended() == 76
    assert "the event loop has not turned for 6 s: the process ends" in worker.log
    await processes.worker().ready()
    await scene.settled()
    assert await scene.count("effects") == 1
    assert await scene.attempts() == [1, 1]


async def test_worker_whose_claim_loop_died_ends(processes: Children, scene: Scene) -> None:
    """A process that is up and claims nothing is worth nothing: it says so, ends with 76, and what it ran is run elsewhere."""
    worker = processes.worker()
    await worker.ready()
    await scene.record(AskedLeast(gate="hold"))
    await scene.reached("runs", 1)
    await scene.record(AskedLeast(mood="end claims", gate="hold"))
    await scene.reached("runs", 2)
    assert await worker.ended() == 76
    assert "the loop claim is dead" in worker.log
    await scene.open("hold")
    await processes.worker().ready()
    await scene.settled()
    assert await scene.attempts() == [1, 1, 1, 1]
    assert await scene.count("effects") == 2


def test_stop_that_hangs_is_ended_from_a_thread() -> None:
    """Whatever a stop waits for, at its hard end the process is gone, with the code that says that something was left behind."""
    hanging = """
import asyncio, threading
from homing.processes.signals import hard_end
hard_end(0.2).start()
async def close():
    await asyncio.shield(asyncio.to_thread(threading.Event().wait, 60))
asyncio.run(close())
"""
    ended = subprocess.run([sys.executable, "-c", hanging], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 75
    assert "the stop has taken longer than 0.2 s" in ended.stderr
