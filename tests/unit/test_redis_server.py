"""Which servers are used, and with what words."""

import pytest

from homing.errors import ServerUnavailable, UnsuitableServer
from homing.queue.redis.server import concerns, read_info, server_facts

GOOD = {
    "redis_version": "7.2.4",
    "loading": "0",
    "role": "master",
    "cluster_enabled": "0",
    "maxmemory_policy": "noeviction",
    "aof_enabled": "1",
}


def judge(**changes: str) -> list[str]:
    """The concerns about a good server with changes."""
    return concerns(server_facts(GOOD | changes), "redis://here", allow_lossy=False)


def test_a_good_server_raises_no_concern() -> None:
    """Nothing is said about a server that is as it should be."""
    assert judge() == []


def test_info_is_read_with_its_sections() -> None:
    """Section titles and empty lines are skipped; values keep their colons."""
    assert read_info(b"# Server\r\nredis_version:7.2.4\r\n\r\nexecutable:/a:b\r\n") == {
        "redis_version": "7.2.4",
        "executable": "/a:b",
    }


@pytest.mark.parametrize("version", ["6.0.16", "5.0.7", "6.1"])
def test_old_servers_are_refused(version: str) -> None:
    """The version found and the version needed are named."""
    with pytest.raises(UnsuitableServer, match=f"version {version}.*6.2"):
        judge(redis_version=version)


@pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "255.255.255"])
def test_new_servers_are_taken(version: str) -> None:
    """From 6.2 on, development builds included."""
    assert judge(redis_version=version) == []


def test_servers_that_pass_by_themselves_are_unavailable() -> None:
    """Loading and being a replica are outages, not mistakes."""
    for state in ({"loading": "1"}, {"role": "slave"}):
        with pytest.raises(ServerUnavailable):
            judge(**state)


def test_a_cluster_is_taken_where_the_url_says_so() -> None:
    """A node of a cluster that the URL takes for a single server is named as such before anything is written to it."""
    with pytest.raises(UnsuitableServer, match=r"redis\+cluster://"):
        judge(cluster_enabled="1")
    assert concerns(server_facts(GOOD | {"cluster_enabled": "1"}), "there", allow_lossy=False, on_cluster=True) == []


def test_eviction_is_refused_unless_forced() -> None:
    """The policy and the remedy are named; forced, it is a warning."""
    with pytest.raises(UnsuitableServer, match=r"volatile-lru.*noeviction.*allow_lossy"):
        judge(maxmemory_policy="volatile-lru")
    facts = server_facts(GOOD | {"maxmemory_policy": "volatile-lru"})
    assert len(concerns(facts, "redis://here", allow_lossy=True)) == 1


def test_what_is_hidden_is_said() -> None:
    """A managed service that hides its settings gets a warning for each, and is used."""
    said = concerns(server_facts({}), "redis://here", allow_lossy=False)
    assert ["maxmemory-policy" in said[0], "appendonly" in said[1], len(said)] == [True, True, 2]


def test_no_persistence_is_a_warning() -> None:
    """Without an append-only file a restart forgets jobs, which the ledger repairs: worth a word, not a refusal."""
    (said,) = judge(aof_enabled="0")
    assert "append-only" in said
