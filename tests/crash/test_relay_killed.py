"""A relay that dies between the commit and the dispatch, and relays that die while they work."""

from pathlib import Path

from redis import Redis

from homing.queue.redis.keys import QueueKeys
from tests.crash.children import LEAST_APP, Children, children
from tests.crash.conftest import Scene
from tests.crash.least_app import AskedLeast
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

APP = LEAST_APP


async def test_relay_killed_between_commit_and_dispatch(
    scene: Scene, database_url: str, redis_url: str, redis_prefix: str, tmp_path: Path
) -> None:
    """The deliveries are committed, their jobs were never added, the relay is gone: another one finds and dispatches them."""
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    async with TcpProxy(port) as proxy:
        with children(database_url, proxy.url(redis_url), redis_prefix, tmp_path, LEAST_APP) as doomed:
            relay = doomed.relay()
            await relay.ready()
            proxy.silence()
            await scene.record(*(AskedLeast(number=number) for number in range(5)))
            await scene.reached("homing.deliveries", 5)
            relay.kill()
    with Redis.from_url(redis_url) as client:
        assert client.exists(QueueKeys(redis_prefix, "least").part("wait")) == 0
    await scene.sql.execute(  # what half a minute does, and the ten seconds of the dead relay's right to sweep
        "WITH due AS (UPDATE homing.deliveries SET check_at = now()) UPDATE homing.queues SET sweeper_until = now()"
    )
    with children(database_url, redis_url, redis_prefix, tmp_path, LEAST_APP) as others:
        await others.worker().ready()
        await scene.settled()
    assert await scene.count("effects") == 5
    assert await scene.outcomes() == {"done"}


async def test_relays_killed_one_after_the_other_lose_nothing(processes: Children, scene: Scene) -> None:
    """While events are recorded, relays are killed and replaced; in the end each event had its one effect."""
    worker = processes.worker("--no-relay")
    await worker.ready()
    recorded = 0
    for _ in range(3):
        relay = processes.relay()
        await relay.ready()
        await scene.record(*(AskedLeast(number=number) for number in range(200)))
        recorded += 200

        async def routed() -> bool:
            return bool(await scene.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE settled_at IS NULL"))

        await until(routed, what="the relay is at work")
        relay.kill()
    await scene.sql.execute("UPDATE homing.deliveries SET check_at = now() WHERE settled_at IS NULL")
    await scene.sql.execute("UPDATE homing.queues SET sweeper_until = now()")
    await processes.relay().ready()
    await scene.settled()
    rows = await scene.sql.fetch("SELECT count(*) AS times FROM effects GROUP BY event_id")
    assert len(rows) == recorded
    assert {row["times"] for row in rows} == {1}
