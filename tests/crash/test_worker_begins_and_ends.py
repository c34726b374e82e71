"""The first and the last moments of a worker: resources outlive the last job, a start that hangs can be stopped, and PID 1 obeys."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from homing.config.settings import Settings
from tests.crash.children import ROOT, SHORT, Child, Children
from tests.crash.conftest import Scene
from tests.crash.lifespan_app import Asked
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

APP = "tests.crash.lifespan_app:app"


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """What the application has told."""
    return tmp_path / "told"


def words_in(told: Path) -> list[str]:
    return told.read_text(encoding="ascii").splitlines() if told.exists() else []


async def tells(told: Path, *words: str) -> None:
    """Wait until it has told exactly this."""
    await until(lambda: words_in(told) == list(words), 20, f"it has told {words}")


async def test_resources_are_closed_after_the_last_job(
    processes: Children, scene: Scene, told: Path, tmp_path: Path
) -> None:
    """A stop waits for the run that uses them; only then they are closed, and the process ends with 0."""
    gate = tmp_path / "gate"
    worker = processes.worker(TOLD=str(told))
    await scene.record(Asked(gate=gate))
    await tells(told, "opening", "begun")
    worker.signal(signal.SIGTERM)
    await worker.says("SIGTERM: stopping")
    gate.touch()
    assert await worker.ended() == 0
    await tells(told, "opening", "begun", "done with it open", "closed")
    assert await scene.outcomes() == {"done"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_start_that_hangs_is_stopped_by_one_signal(
    processes: Children, told: Path, number: signal.Signals
) -> None:
    """A lifespan that waits for ever, as for a server that never answers, is told to end; what was opened is closed."""
    worker: Child = processes.worker(TOLD=str(told), NEVER_OPENS="1")
    await tells(told, "opening")
    worker.signal(number)
    assert await worker.ended() == 0
    await tells(told, "opening", "closed")
    assert "stopped" in worker.log


@pytest.mark.parametrize("verb", ["worker", "relay"])
@pytest.mark.parametrize("server", ["DATABASE_URL", "REDIS_URL"])
async def test_a_start_on_a_silent_server_is_stopped_by_one_signal(
    processes: Children, settings: Settings, told: Path, verb: str, server: str
) -> None:
    """A server that accepts and never answers holds up the start, and not the stop."""
    url = settings.asyncpg_dsn if server == "DATABASE_URL" else settings.redis_dsn
    async with TcpProxy(int(url.rpartition(":")[2].partition("/")[0])) as proxy:
        proxy.silence()
        start: Callable[..., Child] = processes.worker if verb == "worker" else processes.relay
        child = start(**{"TOLD": str(told), server: proxy.url(url)})
        await until(lambda: proxy.accepted > 0, 20, "it has connected")
        child.signal(signal.SIGTERM)
        assert await child.ended() == 0
    assert "SIGTERM: stopping" in child.log
    assert words_in(told) == []


UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


def may_be_pid_1() -> bool:
    """Whether this machine lets us have process ids of our own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def pid_1(
    database_url: str, redis_url: str, redis_prefix: str, told: Path, tmp_path: Path
) -> Iterator[Callable[[], str]]:
    """A worker that is PID 1 of a namespace of its own, as in a container without an init; its log."""
    urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HOMING_PREFIX": redis_prefix, "TOLD": str(told)}
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
    log = tmp_path / "pid-1.log"
    command = [*UNSHARE, sys.executable, "-m", "homing", "--app", APP, "worker"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=ROOT, env=ours | SHORT | urls, stdout=output, stderr=subprocess.STDOUT
        ) as unshare,
    ):
        try:
            yield log.read_text
        finally:
            unshare.kill()


@pytest.mark.skipif(not may_be_pid_1(), reason="needs `unshare` and the right to have process ids of one's own")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_as_pid_1_it_obeys_and_finishes_its_job(
    pid_1: Callable[[], str], scene: Scene, told: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """The kernel gives PID 1 no signal that it has no handler for: one order to stop arrives, and the stop is a good one."""
    gate = tmp_path / "gate"
    await scene.record(Asked(gate=gate))
    await tells(told, "opening", "begun")
    (unshare,) = [child for child in psutil.Process().children() if child.name() == "unshare"]
    (worker,) = unshare.children()
    worker.send_signal(number)
    await until(lambda: f"{number.name}: stopping" in pid_1(), 20, "it stops")
    gate.touch()
    await tells(told, "opening", "begun", "done with it open", "closed")
    assert unshare.wait(60) == 0
    assert '"stopped"' in pid_1()
