"""What a person should know about the server before work depends on it: asked once, refusing nothing."""

import time
from collections.abc import Collection
from dataclasses import dataclass

from homing.config.redis_url import Topology, parse_url
from homing.queue.redis.connection import Connection
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.left_behind import LeftBehind, left_behind
from homing.queue.redis.link import Link
from homing.queue.redis.server import ServerFacts, read_info, server_facts

SCANNED_KEYS = 20_000
"""Keys that a check-up reads the names of at the most: a large database is not walked to its end."""

_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What the server said. `strange_queues`: under our prefix and unknown to the ledger, among the keys that were looked at.

    `left_behind`: known queues that hold what only BullMQ 5 reads. Bytes are 0 where the server does not say.
    """

    label: str
    on_cluster: bool
    facts: ServerFacts
    clock_offset_seconds: float
    round_trip_seconds: float
    memory_bytes: int
    memory_limit_bytes: int
    strange_queues: tuple[str, ...]
    left_behind: tuple[LeftBehind, ...]


async def check_up(url: str, prefix: str, queues: Collection[str]) -> Checkup:
    """Ask the server at `url`; reads only. Raises `ServerUnavailable` and `ConfigurationError` as every connection does."""
    address = parse_url(url).for_prefix(prefix)
    prefix = address.key_prefix(prefix)
    connection = Connection(address, client_name="homing-doctor", welcome=_welcome_anybody)
    try:
        sent = time.time()
        seconds, microseconds = await connection.call("TIME")
        answered = time.time()
        info = read_info(await connection.call("INFO"))
        return Checkup(
            label=address.label,
            on_cluster=address.topology is Topology.CLUSTER,
            facts=server_facts(info),
            clock_offset_seconds=int(seconds) + int(microseconds) / 1_000_000 - (sent + answered) / 2,
            round_trip_seconds=answered - sent,
            memory_bytes=int(info.get("used_memory", 0)),
            memory_limit_bytes=int(info.get("maxmemory", 0)),
            strange_queues=tuple(sorted(await _queues_under(connection, prefix) - set(queues))),
            left_behind=await left_behind(connection, [QueueKeys(prefix, queue) for queue in queues]),
        )
    finally:
        await connection.close()


async def _welcome_anybody(_: Link) -> None:
    """What is wrong with the server is the answer, no reason to hang up."""


async def _queues_under(connection: Connection, prefix: str) -> set[str]:
    found: set[str] = set()
    cursor, seen = b"0", 0
    while True:
        cursor, keys = await connection.call("SCAN", cursor, "MATCH", f"{_literal(prefix)}:*", "COUNT", _PAGE)
        found.update(key.decode(errors="replace").split(":")[1] for key in keys)
        seen += _PAGE
        if cursor == b"0" or seen >= SCANNED_KEYS:
            return found


def _literal(prefix: str) -> str:
    """The prefix where a pattern is expected."""
    return "".join("\\" + character if character in "*?[]\\" else character for character in prefix)
