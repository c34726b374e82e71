"""`homing worker --processes N` with real processes: the dead are replaced, all stop together, and nothing is signalled twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from homing.processes.supervisor import LONGEST_PAUSE_SECONDS, pause_after, shell_code
from tests.crash.children import LEAST_APP, Child, Children
from tests.crash.conftest import Scene
from tests.crash.least_app import AskedLeast
from tests.waiting import until

APP = LEAST_APP
WORKERS = 2

ADOPTS = """
import ctypes, sys
if "--supervised" not in sys.orig_argv:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
"""
"""Makes the supervisor the one that orphans below it go to, as PID 1 is (PR_SET_CHILD_SUBREAPER)."""


@pytest.fixture(autouse=True)
def _nothing_survives(processes: Children) -> Iterator[None]:
    """Workers whose supervisor was killed end by themselves; a test that failed does not wait for it."""
    yield
    left = [process for child in processes.started if child.code is None for process in workers_of(child)]
    for process in left:
        process.kill()


def workers_of(supervisor: Child) -> list[psutil.Process]:
    """The supervisor's children that are alive."""
    try:
        children = psutil.Process(supervisor.pid).children()
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


async def ready(supervisor: Child, times: int = WORKERS) -> list[psutil.Process]:
    """Wait until so many workers have said that they are ready; the workers."""
    await until(lambda: supervisor.log.count('"worker ready') >= times, 40, f"{times} workers are ready")
    return workers_of(supervisor)


def messages(supervisor: Child) -> list[str]:
    """What the supervisor and its workers have logged."""
    lines = [line for line in supervisor.log.splitlines() if line.startswith("{")]
    return [json.loads(line)["message"] for line in lines]


async def test_killed_worker_is_replaced_and_its_job_is_done(processes: Children, scene: Scene) -> None:
    """SIGKILL of one worker: the other one and the supervisor go on, a new one comes, and the job of the dead one is run."""
    supervisor = processes.worker("--processes", "2")
    workers = await ready(supervisor)
    assert len(workers) == WORKERS
    await scene.record(AskedLeast(gate="hold"))
    await scene.reached("runs", 1)
    pid = await scene.sql.fetchval("SELECT pid FROM runs")
    (victim,) = [worker for worker in workers if worker.pid == pid]
    victim.kill()
    await supervisor.says(f"(process {pid}) ended with -9; the next one starts in 0.5 s")
    now = await ready(supervisor, WORKERS + 1)
    assert len(now) == WORKERS
    assert pid not in [worker.pid for worker in now]
    await scene.open("hold")
    await scene.settled()
    assert await scene.count("effects") == 1
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_to_the_whole_group_is_one_order(
    processes: Children, scene: Scene, number: signal.Signals
) -> None:
    """A terminal signals every process, and so may a service manager: workers finish their jobs all the same, and all end with 0."""
    supervisor = processes.worker("--processes", "2")
    workers = await ready(supervisor)
    await scene.record(*(AskedLeast(number=number, gate="hold") for number in range(8)))
    await scene.reached("runs", 8)
    os.killpg(supervisor.pid, number)
    await until(lambda: messages(supervisor).count("the supervisor: stopping") == WORKERS, what="all stop")
    for worker in workers:
        worker.send_signal(number)
    await supervisor.says(f"{number.name} is the supervisor's to obey")
    await scene.open("hold")
    assert await supervisor.ended() == 0
    await scene.settled()
    assert await scene.count("effects") == await scene.count("runs") == 8
    assert not any(worker.is_running() for worker in workers)


async def test_signal_in_the_middle_of_a_start_is_one_order(processes: Children) -> None:
    """Workers that are still importing when the whole group is signalled die of nothing: they stop as soon as they can."""
    supervisor = processes.worker("--processes", "2")
    await supervisor.says("worker 2 is process ")
    os.killpg(supervisor.pid, signal.SIGTERM)
    assert await supervisor.ended(40) == 0
    assert messages(supervisor).count("the supervisor: stopping") == WORKERS


def test_worker_that_obeys_nothing_is_killed_in_the_end() -> None:
    """A frozen worker does not keep the supervisor: after its patience it is killed, and the code is that of a hard stop."""
    program = """
import sys
from homing.processes.supervisor import Supervisor
worker = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]
sys.exit(Supervisor([worker], patience_seconds=0.3).run())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as supervisor:
        try:
            assert supervisor.stdout is not None
            worker = int(supervisor.stdout.readline())
            supervisor.send_signal(signal.SIGTERM)
            assert supervisor.wait(60) == 75
        finally:
            supervisor.kill()
    assert not psutil.pid_exists(worker)


async def test_second_signal_kills_at_once(processes: Children, scene: Scene) -> None:
    """The second SIGTERM waits for nobody: no worker is left, and the code tells of it."""
    supervisor = processes.worker("--processes", "2")
    workers = await ready(supervisor)
    await scene.record(AskedLeast(gate="hold"))
    await scene.reached("runs", 1)
    supervisor.signal(signal.SIGTERM)
    await supervisor.says("the supervisor: stopping")
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended(3) == 143
    assert not any(worker.is_running() for worker in workers)


async def test_workers_of_a_killed_supervisor_stop_in_good_order(processes: Children, scene: Scene) -> None:
    """SIGKILL of the supervisor leaves no worker that nobody looks after; running jobs are finished first."""
    supervisor = processes.worker("--processes", "2")
    workers = await ready(supervisor)
    await scene.record(AskedLeast(gate="hold"))
    await scene.reached("runs", 1)
    supervisor.kill()
    await until(
        lambda: messages(supervisor).count("the supervisor is gone: stopping") == WORKERS, what="the workers stop"
    )
    await scene.open("hold")
    await until(lambda: not any(worker.is_running() for worker in workers), 20, "the workers have ended")
    assert await scene.count("effects") == 1


async def test_worker_that_ends_worst_gives_the_code(processes: Children, scene: Scene) -> None:
    """A worker that must leave a run behind ends with 75, and so does the supervisor."""
    supervisor = processes.worker("--processes", "2", HOMING_SHUTDOWN_GRACE="200ms")
    await ready(supervisor)
    await scene.record(AskedLeast(mood="deaf"))
    await scene.reached("runs", 1)
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended() == 75


async def test_worker_that_dies_again_and_again_is_started_ever_later(processes: Children, tmp_path: Path) -> None:
    """A program that cannot run is started with growing pauses, and the supervisor lives and stops as ever."""
    (tmp_path / "broken_app.py").write_text("raise SystemError('broken')\n")
    processes.app = "broken_app:app"
    supervisor = processes.worker("--processes", "2", PYTHONPATH=str(tmp_path))
    for pause in ("0.5 s", "1 s", "2 s"):
        await until(lambda pause=pause: supervisor.log.count(f"the next one starts in {pause}") == WORKERS, 30, pause)
    assert supervisor.code is None
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended() in (0, 70)


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none", 4), ("HOMING_WORKER_QUEUES", "ordres", 3)],
)
async def test_start_that_cannot_succeed_ends_the_supervisor(
    processes: Children, setting: str, value: str, code: int
) -> None:
    """A wrong setting or a server that is not there is told once, with the worker's own code, instead of for ever."""
    supervisor = processes.worker("--processes", "2", **{setting: value})
    assert await supervisor.ended(60) == code
    assert "the next one starts" not in supervisor.log
    assert workers_of(supervisor) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process stand in for PID 1")
async def test_orphans_of_handlers_are_reaped(processes: Children, scene: Scene, tmp_path: Path) -> None:
    """As PID 1 the supervisor inherits what handlers leave behind, and no zombie stays."""
    (tmp_path / "sitecustomize.py").write_text(ADOPTS)
    supervisor = processes.worker("--processes", "2", PYTHONPATH=str(tmp_path))
    await ready(supervisor)
    await scene.record(AskedLeast(mood="orphan"))
    await scene.reached("orphans", 1)
    pid = await scene.sql.fetchval("SELECT pid FROM orphans")
    await until(lambda: not psutil.pid_exists(pid), what="the orphan has ended and was reaped")
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended() == 0


async def test_only_the_first_worker_has_the_relay(processes: Children) -> None:
    """N workers ask the outbox and the engine once, not N times."""
    supervisor = processes.worker("--processes", "2")
    await ready(supervisor)
    said = [line.partition(";")[0] for line in messages(supervisor) if line.startswith("worker ready")]
    assert sorted(said) == ["worker ready", "worker ready, relay included"]
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended() == 0


def test_pauses_double_up_to_half_a_minute() -> None:
    """The first restart comes at once, as people see it; a hopeless program is tried twice a minute."""
    assert [pause_after(failures) for failures in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert pause_after(10_000) == LONGEST_PAUSE_SECONDS


def test_codes_are_those_of_a_shell() -> None:
    """A worker that a signal ended counts as 128 and its number."""
    assert [shell_code(code) for code in (0, 75, -9, -15)] == [0, 75, 137, 143]
