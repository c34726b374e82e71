"""A worker and its engine lose sight of each other in the middle of a claim, of a run and of a finish: nothing is lost, nothing counts twice."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.queue.redis.scripts import load_scripts
from tests.crash.app import Asked, AskedLeast
from tests.crash.children import Child, Children, children
from tests.crash.conftest import Scene
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

CLAIM = load_scripts().move_to_active
FINISH = load_scripts().move_to_finished
PATIENCE_SECONDS = 60.0
"""How long two processes may take to start on a busy machine, and to do their work."""
SLOW = os.environ.get("HOMING_SLOW") == "1"


@pytest.fixture
async def proxy(redis_url: str) -> AsyncIterator[TcpProxy]:
    """What stands between a worker and the engine, which knows the scripts already: the first call of one is the call."""
    with Redis.from_url(redis_url) as client:
        for script in (CLAIM, FINISH):
            client.script_load(script.text)
    async with TcpProxy(int(redis_url.rpartition(":")[2].partition("/")[0])) as proxy:
        yield proxy


@pytest.fixture
def relayed(processes: Children) -> Children:
    """The test's processes, a relay among them that no proxy disturbs."""
    processes.relay()
    return processes


class Jobs:
    """What the engine says of the jobs of both queues."""

    def __init__(self, redis_url: str, prefix: str) -> None:
        self._url = redis_url
        self._prefix = prefix

    def count(self, state: str) -> int:
        """How many are in a state."""
        with Redis.from_url(self._url) as client:
            keys = [f"{self._prefix}:{queue}:{state}" for queue in ("once", "least")]
            return sum(client.llen(key) if state in ("wait", "active") else client.zcard(key) for key in keys)

    async def reach(self, state: str, number: int) -> None:
        """Wait until exactly so many are in a state."""
        await until(lambda: self.count(state) == number, PATIENCE_SECONDS, f"{number} jobs are {state}")


@pytest.fixture
def jobs(redis_url: str, redis_prefix: str) -> Jobs:
    """The jobs of this test."""
    return Jobs(redis_url, redis_prefix)


async def works_on(worker: Child, scene: Scene) -> None:
    """The process lives and does a new job."""
    before = await scene.count("effects")
    await scene.record(AskedLeast())
    await scene.reached("effects", before + 1, PATIENCE_SECONDS)
    await scene.settled(PATIENCE_SECONDS)
    assert worker.code is None


async def test_connection_cut_in_the_middle_of_a_claim_and_of_a_finish(
    relayed: Children, scene: Scene, jobs: Jobs, proxy: TcpProxy, redis_url: str
) -> None:
    """The answer to a claim is lost: its job is leased to nobody and comes back with its lease. The answer to a finish is lost: it is asked again."""
    await scene.record(Asked(gate="hold"))
    await jobs.reach("wait", 1)
    proxy.cut_after(CLAIM.sha.encode(), of=b"")
    worker = relayed.worker("--no-relay", REDIS_URL=proxy.url(redis_url))
    await scene.reached("runs", 1, PATIENCE_SECONDS)
    assert proxy.cuts == 1
    await worker.says("lost its worker and waits again")
    proxy.cut_after(FINISH.sha.encode(), of=b"")
    await scene.open("hold")
    await until(lambda: proxy.cuts == 2, PATIENCE_SECONDS, "the finish is cut")
    await scene.settled(PATIENCE_SECONDS)
    await jobs.reach("completed", 1)
    assert await scene.count("effects") == 1
    assert await scene.attempts() == [1]
    assert "has ended and waits for the engine" in worker.log
    await works_on(worker, scene)


async def test_sockets_half_open_while_jobs_end(
    relayed: Children, scene: Scene, jobs: Jobs, proxy: TcpProxy, redis_url: str
) -> None:
    """The engine accepts and answers nothing: effects are settled, finishes are asked for until they are answered, nothing runs again."""
    worker = relayed.worker("--no-relay", REDIS_URL=proxy.url(redis_url))
    await scene.record(Asked(gate="hold"), AskedLeast(gate="hold"))
    await scene.reached("runs", 2, PATIENCE_SECONDS)
    proxy.silence()
    await scene.open("hold")
    await scene.settled(PATIENCE_SECONDS)
    await worker.says("has ended and waits for the engine")
    assert jobs.count("completed") == 0
    await proxy.heal()
    await jobs.reach("completed", 2)
    assert await scene.count("runs") == await scene.count("effects") == 2
    await worker.says("the server is back")
    await works_on(worker, scene)


async def test_sockets_of_the_database_half_open_while_jobs_run(
    processes: Children, scene: Scene, database_url: str
) -> None:
    """The database accepts and answers nothing: the worker notices in bounded time, claims nothing, and goes on when it is healed."""
    async with TcpProxy(int(database_url.rpartition(":")[2].partition("/")[0])) as proxy:
        worker = processes.worker(DATABASE_URL=proxy.url(database_url), HOMING_ATTEMPT_TIMEOUT="1s", CRASH_HASTY="1")
        await worker.ready()
        await scene.record(Asked(gate="hold"), AskedLeast(gate="hold"))
        await scene.reached("runs", 2, PATIENCE_SECONDS)
        proxy.silence()
        await worker.says("does not answer")
        await scene.open("hold")
        await proxy.heal()
        await worker.says("the server is back")
        await scene.settled(PATIENCE_SECONDS)
        assert await scene.outcomes() == {"done"}
        assert await scene.count("effects") == 2
        await works_on(worker, scene)


async def test_worker_killed_between_settle_and_finish(
    relayed: Children, scene: Scene, jobs: Jobs, proxy: TcpProxy, redis_url: str
) -> None:
    """The effect is committed and the engine was never told: the job comes back, finds its row done, and ends without a run."""
    worker = relayed.worker("--no-relay", REDIS_URL=proxy.url(redis_url))
    await scene.record(Asked(gate="hold"), AskedLeast(gate="hold"))
    await scene.reached("runs", 2, PATIENCE_SECONDS)
    proxy.silence()
    await scene.open("hold")
    await scene.settled(PATIENCE_SECONDS)
    worker.kill()
    other = relayed.worker("--no-relay")
    await jobs.reach("completed", 2)
    assert await scene.count("runs") == await scene.count("effects") == 2
    await until(lambda: other.log.count(".do duplicate in ") == 2, what="both are reported as duplicates")
    await until(lambda: other.log.count("lost its worker and waits again") == 2, what="both were rescued")
    await works_on(other, scene)


async def test_sigterm_in_the_middle_of_a_claim(
    relayed: Children, scene: Scene, jobs: Jobs, proxy: TcpProxy, redis_url: str
) -> None:
    """The answer to a claim is lost while the worker stops: it ends in good order, and the job that was leased runs elsewhere, as its first run."""
    await scene.record(Asked())
    await jobs.reach("wait", 1)
    proxy.silence_after(CLAIM.sha.encode())
    worker = relayed.worker("--no-relay", REDIS_URL=proxy.url(redis_url))
    await until(lambda: proxy.silent, PATIENCE_SECONDS, "a claim is on its way")
    await jobs.reach("active", 1)
    worker.signal(signal.SIGTERM)
    await worker.says("SIGTERM: stopping")
    await proxy.heal()
    assert await worker.ended() == 0
    other = relayed.worker("--no-relay")
    await scene.settled(PATIENCE_SECONDS)
    assert await scene.attempts() == [1]
    assert await scene.count("effects") == 1
    await works_on(other, scene)


async def test_threads_that_a_handler_leaves_behind_do_not_keep_the_process(processes: Children, scene: Scene) -> None:
    """A handler that starts threads and forgets them has done its job; they neither hinder the worker nor outlive its stop."""
    worker = processes.worker()
    await worker.ready()
    await scene.record(AskedLeast(mood="threads"))
    await scene.settled(PATIENCE_SECONDS)
    await works_on(worker, scene)
    worker.signal(signal.SIGTERM)
    assert await worker.ended(10) == 0
    assert "leaving 2 threads that nobody ended: asyncio_0, forgotten" in worker.log


@pytest.fixture
def mortal(mortal_valkey: EmbeddedValkey, database_url: str, tmp_path: Path) -> Iterator[Children]:
    """Processes on an engine that the test takes away."""
    with children(database_url, mortal_valkey.url(), "mortal", tmp_path) as started:
        yield started


@pytest.mark.parametrize(
    ("away_seconds", "lease"),
    [
        (3, "1500ms"),
        pytest.param(
            40, "30s", marks=pytest.mark.skipif(not SLOW, reason="HOMING_SLOW=1 takes the engine away for 40 s")
        ),
    ],
    ids=["for two short leases", "for longer than the default lease"],
)
async def test_engine_stopped_while_jobs_run_and_wait(
    mortal: Children, mortal_valkey: EmbeddedValkey, scene: Scene, away_seconds: float, lease: str
) -> None:
    """The engine is away for longer than a lease: running jobs end in their own time, waiting ones are there afterwards, every effect is there once."""
    worker = mortal.worker(HOMING_LEASE=lease)
    await worker.ready()
    running = [Asked(number=number, gate="hold") for number in range(4)]
    waiting = [Asked(number=number) for number in range(4, 10)]
    await scene.record(*running, *waiting)
    await scene.reached("runs", 4, PATIENCE_SECONDS)
    await asyncio.to_thread(mortal_valkey.stop)
    began = asyncio.get_running_loop().time()
    await scene.record(*(Asked(number=number) for number in range(10, 14)))
    await until(lambda: asyncio.get_running_loop().time() - began > away_seconds / 2, 60, "half of the outage is over")
    await scene.open("hold")
    await until(lambda: asyncio.get_running_loop().time() - began > away_seconds, 60, "the outage is over")
    await asyncio.to_thread(mortal_valkey.start)
    await scene.settled(PATIENCE_SECONDS)
    assert await scene.outcomes() == {"done"}
    assert await scene.count("effects") == 14
    assert await scene.sql.fetchval("SELECT count(DISTINCT event_id) FROM effects") == 14
    await worker.says("the server is back")
    await works_on(worker, scene)
