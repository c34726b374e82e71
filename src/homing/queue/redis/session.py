"""What all parts of the Redis engine share: the connection, the server's clock, the keys, and the check of the server."""

import logging
import time

from homing.config.redis_url import Topology, parse_url
from homing.errors import ConfigurationError, ServerUnavailable
from homing.queue.redis.connection import SILENCE_SECONDS, Connection
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.link import Link
from homing.queue.redis.replies import ResponseError
from homing.queue.redis.scripts import load_scripts
from homing.queue.redis.server import concerns, read_info, server_facts

_log = logging.getLogger(__name__)


class RedisSession:
    """A checked connection of one event loop. Every new connection is checked again: a failover brings another server."""

    def __init__(
        self, url: str, *, prefix: str = "bull", allow_lossy: bool = False, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        self._url = parse_url(url).for_prefix(prefix)
        self._prefix = self._url.key_prefix(prefix)
        self._allow_lossy = allow_lossy
        self._scripts = load_scripts()
        self._queues: dict[str, QueueKeys] = {}
        self._offset_seconds = 0.0
        self._said: set[str] = set()
        self._main = Connection(
            self._url, client_name="homing", welcome=self._check_server, silence_seconds=silence_seconds
        )

    @property
    def address(self) -> tuple[str, int | None] | None:
        """Where the server listens, or the first of those who know it, as the URL says."""
        url = self._url
        return (url.nodes[0].host, url.nodes[0].port) if url.path is None else (url.path, None)

    async def clock_offset_seconds(self) -> float:
        """The server's clock minus this machine's, as measured last."""
        return self._offset_seconds

    def _now_ms(self) -> int:
        """The server's time, which is the only one scripts are given."""
        return int((time.time() + self._offset_seconds) * 1000)

    def _keys(self, queue: str) -> QueueKeys:
        keys = self._queues.get(queue)
        if keys is None:
            keys = self._queues[queue] = QueueKeys(self._prefix, queue)
        return keys

    async def _check_server(self, link: Link) -> None:
        await self._measure_clock(link)
        try:
            info = read_info(await link.call("INFO"))
        except (ResponseError, ConfigurationError) as error:  # renamed, or not permitted to this user
            info = {}
            self._say(f"{self._url.label} does not allow INFO, so its settings cannot be checked: {error}")
        on_cluster = self._url.topology is Topology.CLUSTER
        facts = server_facts(info)
        for concern in concerns(facts, self._url.label, allow_lossy=self._allow_lossy, on_cluster=on_cluster):
            self._say(concern)

    async def _measure_clock(self, link: Link) -> None:
        sent_at = time.time()
        seconds, microseconds = await link.call("TIME")
        self._note_time(sent_at, int(seconds) + int(microseconds) / 1_000_000)

    def _note_time(self, sent_at: float, server_time: float) -> None:
        """Take the server's reading as of the middle of the round trip."""
        self._offset_seconds = server_time - (sent_at + time.time()) / 2

    def _say(self, concern: str) -> None:
        if concern not in self._said:
            self._said.add(concern)
            _log.warning("%s", concern)

    def _not_understood(self, what: str, reply: object) -> ServerUnavailable:
        return ServerUnavailable(f"{self._url.label} answered {reply!r} to {what}: nothing was concluded from it")
