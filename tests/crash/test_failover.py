"""The primary dies, or hands its part over: Sentinels and cluster nodes say who has it now, and no delivery is left behind."""

from pathlib import Path
from typing import Any

import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.embedded import EmbeddedValkey
from homing.queue.redis.finding import key_slot
from tests.system import System, quick, running
from tests.valkey_groups import client, role, small_cluster, tell, watched_primary
from tests.waiting import until

PATIENCE_SECONDS = 90.0


class Moved(Event, topic="failover.moved"):
    """Something to count."""

    number: int


def counting(seen: list[int]) -> Homing:
    """An app whose handler notes what it was given."""
    app = Homing("moving")

    @app.queue("work", concurrency=4).handler("count", on=Moved, at_least_once=True)
    async def count(event: Moved) -> None:
        seen.append(event.number)

    return app


async def record_and_settle(system: System, seen: list[int], first: int, count: int = 20) -> None:
    """Record events, and see each of them handled and settled."""
    await system.record(*(Moved(number=number) for number in range(first, first + count)))
    await system.settled(PATIENCE_SECONDS)
    assert set(seen) >= set(range(first, first + count))


async def is_primary(server: EmbeddedValkey) -> None:
    """Wait until the server was promoted."""
    await until(lambda: role(server) == "master", PATIENCE_SECONDS, "the replica is promoted")


def at(settings: Settings, url: str) -> Settings:
    """Short times, and this Redis."""
    return quick(settings, redis_url=url, prefix="moving")


async def test_a_sentinels_word_is_followed(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The primary is killed under a running worker and relay; both go on at the replica that is promoted."""
    seen: list[int] = []
    with watched_primary(tmp_path) as group:
        async with running(counting(seen), at(settings, group.url)) as system:
            await record_and_settle(system, seen, 0)
            group.primary.kill()
            await record_and_settle(system, seen, 100)
            assert role(group.replica) == "master"
            assert f"now 127.0.0.1:{group.primary.port}" in caplog.text, "which server was lost is said"


async def test_a_clusters_word_is_followed(settings: Settings, tmp_path: Path) -> None:
    """The node that holds the prefix hands it to its replica, and later that one is killed and the first takes it back."""
    seen: list[int] = []
    with small_cluster(tmp_path, key_slot("moving")) as cluster:
        async with running(counting(seen), at(settings, cluster.url)) as system:
            await record_and_settle(system, seen, 0)
            with client(cluster.holder) as holder:
                keys: Any = holder.keys("*")
                assert keys
                assert all(key.startswith(b"{moving}:") for key in keys)
            with client(cluster.replica) as replica:
                tell(replica, "CLUSTER FAILOVER")
            await is_primary(cluster.replica)
            await record_and_settle(system, seen, 100)
            await until(lambda: role(cluster.holder) == "slave", PATIENCE_SECONDS, "the first node follows the second")
            cluster.replica.kill()
            await record_and_settle(system, seen, 200)
            assert role(cluster.holder) == "master"
