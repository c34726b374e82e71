"""The engine's part of `homing doctor`: what Redis says about itself, judged."""

import asyncio
from collections.abc import Collection, Iterator

from homing.harmless import clean_line
from homing.queue.redis.checkup import Checkup, check_up
from homing.queue.redis.server import OLDEST_VERSION
from homing.upkeep.doctor.finding import Finding, error, ok, warning

CLOCK_SECONDS = 1.0
FULL_SHARE = 0.8


def examine_engine(url: str, prefix: str, queues: Collection[str]) -> list[Finding]:
    """Ask the server and judge; a server that does not answer is a `ServerUnavailable`."""
    return list(judge(asyncio.run(check_up(url, prefix, queues))))


def judge(checkup: Checkup) -> Iterator[Finding]:
    """One finding for each thing that was asked. Pure."""
    yield _version(checkup)
    yield _role(checkup)
    yield _eviction(checkup)
    yield _persistence(checkup)
    yield _memory(checkup)
    yield _clock(checkup)
    yield _strangers(checkup)
    yield _left_behind(checkup)


def _version(checkup: Checkup) -> Finding:
    version = checkup.facts.version
    if version is None:
        return warning(
            "redis-version", f"{checkup.label} does not say its version", "make sure that it is 6.2 or newer"
        )
    shown = ".".join(map(str, version))
    if version < OLDEST_VERSION:
        return error(
            "redis-version", f"{checkup.label} is version {shown}", "Homing needs Redis 6.2, Valkey 7.2, or newer"
        )
    return ok("redis-version", f"{checkup.label} is compatible with Redis {shown}")


def _role(checkup: Checkup) -> Finding:
    facts = checkup.facts
    if facts.is_cluster and not checkup.on_cluster:
        return error(
            "redis-role",
            f"{checkup.label} is a node of a Redis Cluster",
            "write REDIS_URL as redis+cluster://host:port,…",
        )
    if facts.is_replica:
        return error("redis-role", f"{checkup.label} is a read-only replica", "point REDIS_URL to the primary")
    if facts.is_loading:
        return error("redis-role", f"{checkup.label} is still loading its data", "wait until it has")
    return ok("redis-role", f"{checkup.label} takes writes")


def _eviction(checkup: Checkup) -> Finding:
    policy = checkup.facts.eviction_policy
    if policy is None:
        return warning(
            "redis-eviction",
            f"{checkup.label} does not say what it evicts when memory is full",
            "make sure that maxmemory-policy is noeviction",
        )
    if policy != "noeviction":
        return error(
            "redis-eviction",
            f"{checkup.label} evicts keys when memory is full (maxmemory-policy {policy}), and jobs are keys",
            "CONFIG SET maxmemory-policy noeviction, and in its configuration file",
        )
    return ok("redis-eviction", f"{checkup.label} evicts nothing")


def _persistence(checkup: Checkup) -> Finding:
    if checkup.facts.appends_to_disk:
        return ok("redis-aof", f"{checkup.label} has an append-only file")
    said = "has no append-only file" if checkup.facts.appends_to_disk is False else "does not say whether it persists"
    return warning(
        "redis-aof",
        f"{checkup.label} {said}: a restart forgets jobs until they are dispatched again, and forgets direct jobs for good",
        "CONFIG SET appendonly yes, and in its configuration file",
    )


def _memory(checkup: Checkup) -> Finding:
    used, limit = checkup.memory_bytes, checkup.memory_limit_bytes
    if limit and used > FULL_SHARE * limit:
        return warning(
            "redis-memory",
            f"{checkup.label} uses {used / 2**20:.0f} of {limit / 2**20:.0f} MB: when it is full nothing can be dispatched",
            "raise maxmemory, or keep fewer finished jobs",
        )
    return ok(
        "redis-memory", f"{checkup.label} uses {used / 2**20:.0f} MB" + (f" of {limit / 2**20:.0f}" if limit else "")
    )


def _clock(checkup: Checkup) -> Finding:
    if abs(checkup.clock_offset_seconds) > CLOCK_SECONDS + checkup.round_trip_seconds:
        return warning(
            "redis-clock",
            f"the clock of {checkup.label} is {checkup.clock_offset_seconds:+.1f} s from this machine's",
            "run NTP on both: delays and limits run by Redis's clock",
        )
    return ok("redis-clock", f"the clock of {checkup.label} agrees with this machine's")


def _strangers(checkup: Checkup) -> Finding:
    if checkup.strange_queues:
        named = ", ".join(clean_line(name, 60) for name in checkup.strange_queues[:5])
        return warning(
            "redis-keys",
            f"{len(checkup.strange_queues)} queues under our prefix are unknown to the ledger, as {named}",
            "somebody else works under this prefix, or a queue was renamed: give each application its own HOMING_PREFIX",
        )
    return ok("redis-keys", "every queue under our prefix is known")


def _left_behind(checkup: Checkup) -> Finding:
    if checkup.left_behind:
        named = "; ".join(clean_line(str(left), 200) for left in checkup.left_behind[:3])
        return error(
            "bullmq-5",
            f"{len(checkup.left_behind)} queues hold what only BullMQ 5 reads: {named}",
            clean_line(checkup.left_behind[0].remedy, 400),
        )
    return ok("bullmq-5", "nothing lies where only BullMQ 5 reads it")
