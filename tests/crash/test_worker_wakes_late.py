"""A worker that slept through its lease: what it tells when it wakes, and what it may still do."""

import signal

from redis import Redis

from homing.ids import DeliveryKey
from homing.queue.redis.keys import QueueKeys
from tests.crash.children import LEAST_APP, Child, Children
from tests.crash.conftest import Scene
from tests.crash.least_app import AskedLeast

APP = LEAST_APP


async def test_the_old_run_is_told_and_the_new_one_alone_ends_the_job(
    processes: Children, scene: Scene, redis_url: str, redis_prefix: str
) -> None:
    """SIGSTOP past the lease and SIGCONT while the job runs elsewhere: the old run ends without an effect, and its worker does the next job."""
    frozen = processes.worker()
    await frozen.ready()
    event = AskedLeast(gate="hold")
    await scene.record(event)
    await scene.reached("runs", 1)
    frozen.signal(signal.SIGSTOP)
    other = processes.worker()
    await scene.reached("runs", 2)  # its lease was taken from it, and the job begun anew
    lock, job = keys_of(event, redis_prefix)
    with Redis.from_url(redis_url) as client:
        token = client.get(lock)
        frozen.signal(signal.SIGCONT)
        await frozen.says("another run holds its lease; this one is told to end")
        await frozen.says("lease_lost")
        assert client.get(lock) == token
        assert client.hget(job, "finishedOn") is None
        assert await scene.outcomes() == {None}
        await scene.open("hold")
        await scene.settled()
        assert [row["pid"] for row in await scene.sql.fetch("SELECT pid FROM effects")] == [other.pid]
    assert await scene.attempts() == [1, 1]
    assert await scene.outcomes() == {"done"}
    await does_a_job_alone(frozen, other, scene)


async def does_a_job_alone(frozen: Child, other: Child, scene: Scene) -> None:
    """The worker that slept is as good as new."""
    other.signal(signal.SIGTERM)
    assert await other.ended() == 0
    await scene.record(AskedLeast())
    await scene.reached("effects", 2)
    assert await scene.sql.fetchval("SELECT count(*) FROM effects WHERE pid = $1", frozen.pid) == 1
    frozen.signal(signal.SIGTERM)
    assert await frozen.ended() == 0


def keys_of(event: AskedLeast, prefix: str) -> tuple[str, str]:
    """The lock and the hash of its job."""
    keys, job_id = QueueKeys(prefix, "least"), DeliveryKey(event.event_id, "least.do", 1).job_id
    return keys.lock(job_id), keys.part(job_id)
