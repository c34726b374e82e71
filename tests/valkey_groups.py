"""Several Valkey servers that know each other: a primary with a replica under a Sentinel, and a small cluster."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from homing.embedded import EmbeddedValkey, stop_with_parent
from homing.queue.redis.finding import SLOTS
from tests.waiting import wait_until

PASSWORD = "p@ss/of:the#group"
ENCODED = "p%40ss%2Fof%3Athe%23group"
SERVICE = "shop-primary"

PATIENCE_SECONDS = 60.0


class SentinelServer(EmbeddedValkey):
    """A Sentinel in a folder; what it watches is said with commands."""

    def _command(self, port: int) -> Sequence[str]:
        return [*super()._command(port), "--sentinel"]


@dataclass(frozen=True)
class Watched:
    """A primary, its replica, and the Sentinel that promotes the replica."""

    primary: EmbeddedValkey
    replica: EmbeddedValkey
    sentinel: SentinelServer

    @property
    def url(self) -> str:
        """The group's URL, with the Sentinel behind one that does not exist."""
        secret = self.sentinel.url().partition("@")[0].rpartition(":")[2]
        nodes = f"127.0.0.1:{free_port()},127.0.0.1:{self.sentinel.port}"
        return f"redis+sentinel://:{ENCODED}@{nodes}/{SERVICE}?sentinel_password={secret}"


@contextmanager
def watched_primary(home: Path) -> Iterator[Watched]:
    """Start the three; all of them end with the block or with the test session."""
    with ExitStack() as stack:
        primary, replica = (stack.enter_context(_started(EmbeddedValkey(home / name))) for name in ("one", "two"))
        _share_password(primary, replica)
        client(replica).replicaof("127.0.0.1", primary.port)
        wait_until(lambda: _info(replica)["master_link_status"] == "up", PATIENCE_SECONDS, "the replica follows")
        sentinel = SentinelServer(home / "eye", settings={"appendonly": "no"})
        stack.enter_context(_started(sentinel))
        with Redis.from_url(sentinel.url()) as eye:
            tell(eye, "SENTINEL MONITOR", SERVICE, "127.0.0.1", primary.port, 1)
            for name, value in (("auth-pass", PASSWORD), ("down-after-milliseconds", 300), ("failover-timeout", 3000)):
                tell(eye, "SENTINEL SET", SERVICE, name, value)
            wait_until(lambda: bool(_replicas(eye)), PATIENCE_SECONDS, "the Sentinel knows the replica")
        yield Watched(primary, replica, sentinel)


@dataclass(frozen=True)
class Cluster:
    """Three primaries, each with a third of the slots, and a replica of the one that holds `slot`."""

    holder: EmbeddedValkey
    replica: EmbeddedValkey
    others: tuple[EmbeddedValkey, ...]

    @property
    def url(self) -> str:
        """The cluster's URL, which names one node that holds nothing of ours."""
        return f"redis+cluster://:{ENCODED}@127.0.0.1:{self.others[0].port}"


@contextmanager
def small_cluster(home: Path, slot: int) -> Iterator[Cluster]:
    """Start the four and join them; all of them end with the block or with the test session."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(_started(_cluster_node(home / str(number)))) for number in range(4)]
        _share_password(*nodes)
        *primaries, replica = nodes
        for number, node in enumerate(primaries):
            first, last = number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1
            tell(client(node), "CLUSTER ADDSLOTSRANGE", first, last)
        for node in nodes[1:]:
            tell(client(nodes[0]), "CLUSTER MEET", "127.0.0.1", node.port, _bus_port(node))
        holder = primaries[slot * 3 // SLOTS]
        wait_until(lambda: all(_has_met(node, 4) for node in nodes), PATIENCE_SECONDS, "the nodes have met")
        tell(client(replica), "CLUSTER REPLICATE", tell(client(holder), "CLUSTER MYID"))
        wait_until(lambda: _info(replica).get("master_link_status") == "up", PATIENCE_SECONDS, "the replica follows")
        wait_until(lambda: all(_is_well(node) for node in nodes), PATIENCE_SECONDS, "the cluster is complete")
        yield Cluster(holder, replica, tuple(node for node in primaries if node is not holder))


def client(server: EmbeddedValkey) -> Redis:
    """A client of one server of a group."""
    return Redis(port=server.port, password=PASSWORD)


def tell(one: Redis, command: str, *words: object) -> Any:
    """Send one command that the client library has no method for."""
    return one.execute_command(command, *words)  # type: ignore[no-untyped-call]  # redis-py does not type it


def role(server: EmbeddedValkey) -> str:
    """`master` or `slave`, as the server says."""
    return str(_info(server)["role"])


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _started(server: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    with server:
        stop_with_parent(server)
        yield server


def _cluster_node(home: Path) -> EmbeddedValkey:
    settings = {
        "cluster-enabled": "yes",
        "cluster-port": str(free_port()),
        "cluster-node-timeout": "1000",
        "cluster-replica-validity-factor": "0",
    }
    return EmbeddedValkey(home, settings=settings)


def _share_password(*servers: EmbeddedValkey) -> None:
    for server in servers:
        with Redis.from_url(server.url()) as own:
            own.config_set("masterauth", PASSWORD)
            own.config_set("requirepass", PASSWORD)


def _info(server: EmbeddedValkey) -> dict[str, Any]:
    with client(server) as one:
        return dict(one.info("replication"))


def _replicas(eye: Redis) -> list[Any]:
    return list(tell(eye, "SENTINEL REPLICAS", SERVICE))


def _bus_port(node: EmbeddedValkey) -> int:
    with client(node) as one:
        return int(one.config_get("cluster-port")["cluster-port"])


def _has_met(node: EmbeddedValkey, count: int) -> bool:
    with client(node) as one:
        described = one.cluster("NODES")
    return len(described) == count and not any("handshake" in each["flags"] for each in described.values())


def _is_well(node: EmbeddedValkey) -> bool:
    said = _cluster_info(node)
    return said["cluster_state"] == "ok" and said["cluster_slots_ok"] == str(SLOTS)


def _cluster_info(node: EmbeddedValkey) -> dict[str, str]:
    with client(node) as one:
        said = tell(one, "CLUSTER INFO")
    return dict(said) if isinstance(said, dict) else dict(line.split(":") for line in said.decode().split())
