"""Where the server is now: its own address, or the answer of the Sentinels or cluster nodes that know it.

Asked before every connection, never remembered: after a failover the next connection is made to the new primary.
"""

import asyncio
import binascii
from collections.abc import Awaitable, Callable
from typing import Any

from homing.config.redis_url import Address, Credentials, RedisUrl, Topology
from homing.errors import ConfigurationError, HomingError, ServerUnavailable
from homing.queue.redis.replies import ResponseError

ASK_SECONDS = 1.0
"""How long one of several nodes may take to connect and answer, so that a silent one does not hide the others."""

SLOTS = 16_384

Ask = Callable[[Address, Credentials, tuple[str, ...]], Awaitable[Any]]
"""Connects to a node, signs in, sends one command and returns its reply."""


class ServerFinder:
    """Finds the server of one URL.

    Whoever answered last is asked first, unless the server it named was lost since. Of a cluster, nodes count that were only heard of.
    """

    def __init__(self, url: RedisUrl, ask: Ask) -> None:
        self._url = url
        self._ask = ask
        self._nodes = list(url.nodes)

    async def find(self) -> Address:
        """The address to connect to. `ServerUnavailable` where nobody could say it, with what each of them said."""
        if self._url.topology is Topology.SERVER:
            return self._url.nodes[0]
        said: list[str] = []
        for node in list(self._nodes):
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    found = await self._answer_of(node)
            except ConfigurationError:
                raise
            except ResponseError as error:
                kind = "no Sentinel" if self._url.topology is Topology.SENTINEL else "no node of a cluster"
                raise ConfigurationError(f"{self._url.label}: {node} is {kind}, it answers: {error}") from error
            except (HomingError, OSError, TimeoutError) as error:
                said.append(f"{node}: {str(error) or f'no answer within {ASK_SECONDS:g} s'}")
            else:
                self._nodes = list(dict.fromkeys([node, *self._nodes]))
                return found
        raise ServerUnavailable(f"{self._url.label}: nobody says where the server is ({'; '.join(said)})")

    def doubt(self) -> None:
        """The server was lost: whoever named it may not know better yet, and is asked last."""
        self._nodes = [*self._nodes[1:], *self._nodes[:1]]

    async def _answer_of(self, node: Address) -> Address:
        if self._url.topology is Topology.SENTINEL:
            return await self._primary_by(node)
        return await self._holder_by(node)

    async def _primary_by(self, sentinel: Address) -> Address:
        service = self._url.service or ""
        words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
        reply = await self._ask(sentinel, self._url.sentinel_credentials, words)
        if reply is None:
            raise ServerUnavailable(f"knows no service {service!r}")
        return Address(reply[0].decode(), int(reply[1]))

    async def _holder_by(self, node: Address) -> Address:
        slot = key_slot(self._url.tag or "")
        ranges = await self._ask(node, self._url.credentials, ("CLUSTER", "SLOTS"))
        self._hear_of([_node(described, node) for described in _all_nodes(ranges)])
        for first, last, primary, *_ in ranges:
            if first <= slot <= last:
                return _node(primary, node)
        raise ServerUnavailable(f"no node holds slot {slot} of the keys {{{self._url.tag}}}")

    def _hear_of(self, nodes: list[Address]) -> None:
        """The cluster's present nodes, and those of the URL: either may be all that is left one day."""
        self._nodes = list(dict.fromkeys([*nodes, *self._url.nodes]))


def key_slot(tag: str) -> int:
    """The slot of all keys with this hash tag: CRC-16/XMODEM, as the Cluster specification has it."""
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


def _all_nodes(ranges: list[Any]) -> list[Any]:
    return [described for _, _, *nodes in ranges for described in nodes]


def _node(described: Any, asked: Address) -> Address:
    """A node of the answer; one without a host name is reached where the answer came from."""
    host = (described[0] or b"").decode()
    return Address(host if host and host != "?" else asked.host, int(described[1]))
