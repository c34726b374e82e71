"""Being told to stop: what happens to running jobs, and which exit code tells of it."""

import signal
from datetime import datetime

from tests.crash.app import Asked, AskedLeast
from tests.crash.children import Children
from tests.crash.conftest import Scene
from tests.waiting import until


async def test_running_job_is_finished_on_sigterm(processes: Children, scene: Scene) -> None:
    """After SIGTERM the running job ends in its own time, its lease renewed; nothing new is claimed, and the exit code is 0."""
    worker = processes.worker("--no-relay")
    neighbour = processes.worker(HOMING_WORKER_QUEUES="once")
    await worker.ready()
    await neighbour.ready()
    held = AskedLeast(gate="hold")
    await scene.record(held)
    await scene.reached("runs", 1)
    worker.signal(signal.SIGTERM)
    await worker.says("SIGTERM: stopping")
    rescuer = processes.worker("--no-relay")
    await rescuer.ready()
    later = [AskedLeast(number=number) for number in range(1, 10)]
    for event in later:  # the neighbours work, and look for jobs without a lease, for longer than a lease
        await scene.record(event)
        await scene.reached("runs", 1 + event.number)
    looked_at = await scene.sql.fetchval("SELECT max(at) FROM runs")
    await until(lambda: lease_has_passed(scene, looked_at), what="three leases have passed")
    await scene.open("hold")
    assert await worker.ended() == 0
    await scene.settled()
    pids = [row["pid"] for row in await scene.sql.fetch("SELECT pid FROM runs ORDER BY at")]
    assert pids.count(worker.pid) == 1
    assert await scene.sql.fetchval("SELECT count(DISTINCT event_id) FROM effects") == 10
    assert [line for line in rescuer.log.splitlines() if "lost its worker" in line and str(held.event_id) in line] == []


async def lease_has_passed(scene: Scene, since: datetime) -> bool:
    """Whether three leases have passed since then, by the database's clock."""
    return bool(await scene.sql.fetchval("SELECT clock_timestamp() - $1::timestamptz > interval '4.5 s'", since))


async def test_job_longer_than_the_grace_is_given_back(processes: Children, scene: Scene) -> None:
    """At the end of the grace the run is cancelled and given back without spending its attempt; another worker takes it at once."""
    worker = processes.worker(HOMING_SHUTDOWN_GRACE="300ms", HOMING_LEASE="30s", HOMING_RESCUE="30s")
    await worker.ready()
    await scene.record(Asked(gate="hold"), AskedLeast(gate="hold"))
    await scene.reached("runs", 2)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    assert await scene.count("effects") == 0
    other = processes.worker(HOMING_LEASE="30s", HOMING_RESCUE="30s")
    await other.ready()
    await scene.reached("runs", 4, timeout_seconds=5)  # long before a lease of 30 s could end
    await scene.open("hold")
    await scene.settled()
    assert await scene.attempts() == [1, 1, 1, 1]
    assert await scene.count("effects") == 2


async def test_second_signal_ends_at_once(processes: Children, scene: Scene) -> None:
    """A second SIGTERM waits for nothing; the job runs elsewhere when its lease ends."""
    worker = processes.worker(HOMING_SHUTDOWN_GRACE="300s")
    await worker.ready()
    await scene.record(Asked(gate="hold"))
    await scene.reached("runs", 1)
    worker.signal(signal.SIGTERM)
    await worker.says("SIGTERM: stopping")
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 143
    await scene.open("hold")
    await processes.worker().ready()
    await scene.settled()
    assert await scene.count("effects") == 1


async def test_second_signal_ends_a_blocked_loop_too(processes: Children, scene: Scene) -> None:
    """A handler that blocks the event loop cannot keep the second signal from ending the process."""
    worker = processes.worker()
    await worker.ready()
    await scene.record(AskedLeast(mood="blocking"))
    await scene.reached("runs", 1)

    def signalled_again() -> bool:
        worker.signal(signal.SIGTERM)
        return worker.code is not None

    await until(signalled_again, 10, what="the process ends")
    assert worker.code == 143


async def test_deaf_handler_does_not_keep_the_process(processes: Children, scene: Scene) -> None:
    """A handler that goes on after being cancelled is left behind in bounded time, its job given back, and the exit code says so."""
    worker = processes.worker(HOMING_SHUTDOWN_GRACE="200ms", HOMING_LEASE="60s", HOMING_RESCUE="60s")
    await worker.ready()
    await scene.record(AskedLeast(mood="deaf"))
    await scene.reached("runs", 1)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 75
    assert "ignored being told to end" in worker.log
    await processes.worker(HOMING_LEASE="60s", HOMING_RESCUE="60s").ready()
    await scene.reached("runs", 2, timeout_seconds=15)
    assert await scene.attempts() == [1, 1]


async def test_relay_ends_on_sigterm(processes: Children, scene: Scene) -> None:
    """A relay that is told to stop finishes its batch and exits with 0."""
    relay = processes.relay()
    await relay.ready()
    await scene.record(Asked())
    relay.signal(signal.SIGTERM)
    assert await relay.ended(5) == 0
