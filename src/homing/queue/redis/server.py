"""What the server says about itself, and whether work is safe with it."""

from dataclasses import dataclass

from homing.errors import ServerUnavailable, UnsuitableServer

OLDEST_VERSION = (6, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The part of INFO that decides; `None` where a managed service hides it."""

    version: tuple[int, ...] | None
    is_loading: bool
    is_replica: bool
    is_cluster: bool
    eviction_policy: str | None
    appends_to_disk: bool | None


def read_info(text: bytes) -> dict[str, str]:
    """INFO as a dictionary."""
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon and not name.startswith("#")}


def server_facts(info: dict[str, str]) -> ServerFacts:
    """What matters of INFO. Valkey reports the Redis version it is compatible with, which is what the scripts need."""
    version = info.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    appends = info.get("aof_enabled")
    return ServerFacts(
        version=numbers or None,
        is_loading=info.get("loading") == "1",
        is_replica=info.get("role") == "slave",
        is_cluster=info.get("cluster_enabled") == "1",
        eviction_policy=info.get("maxmemory_policy"),
        appends_to_disk=None if appends is None else appends == "1",
    )


def concerns(facts: ServerFacts, label: str, *, allow_lossy: bool, on_cluster: bool = False) -> list[str]:
    """What to say about a server that is used; raises for one that must not be.

    `on_cluster`: the URL says that it is a cluster. `UnsuitableServer`: too old, a cluster node where the URL names a single server,
    or it may evict jobs and `allow_lossy` is not set.
    `ServerUnavailable`: it is loading, or a replica; both pass by themselves after a restart or a failover.
    """
    _require_ready(facts, label)
    if facts.version is not None and facts.version < OLDEST_VERSION:
        found = ".".join(map(str, facts.version))
        raise UnsuitableServer(f"{label} is version {found}; Homing needs Redis 6.2, Valkey 7.2, or newer")
    if facts.is_cluster and not on_cluster:
        raise UnsuitableServer(
            f"{label} is a node of a Redis Cluster: write its URL as redis+cluster://host:port,…, so that failovers are followed"
        )
    return [*_eviction(facts, label, allow_lossy=allow_lossy), *_persistence(facts, label)]


def _require_ready(facts: ServerFacts, label: str) -> None:
    if facts.is_loading:
        raise ServerUnavailable(f"{label} is still loading its data")
    if facts.is_replica:
        raise ServerUnavailable(
            f"{label} is a read-only replica: a failover is under way, or the URL names the wrong node"
        )


def _eviction(facts: ServerFacts, label: str, *, allow_lossy: bool) -> list[str]:
    policy = facts.eviction_policy
    if policy is None:
        return [
            f"{label} does not say what it evicts when memory is full: make sure that maxmemory-policy is noeviction"
        ]
    if policy == "noeviction":
        return []
    text = (
        f"{label} evicts keys when memory is full (maxmemory-policy {policy}), and jobs are keys: set it to noeviction"
    )
    if not allow_lossy:
        raise UnsuitableServer(f"{text}, or start with allow_lossy if losing jobs is acceptable")
    return [text]


def _persistence(facts: ServerFacts, label: str) -> list[str]:
    if facts.appends_to_disk is None:
        return [f"{label} does not say whether it persists its data: make sure that appendonly is on"]
    if not facts.appends_to_disk:
        return [f"{label} has no append-only file, so a restart forgets its jobs until they are dispatched again"]
    return []
