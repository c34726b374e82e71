"""Who is asked where the server is, and what is made of the answers."""

import asyncio
from typing import Any

import pytest

from homing.config.redis_url import Address, Credentials, parse_url
from homing.errors import ConfigurationError, ServerUnavailable
from homing.queue.redis import finding
from homing.queue.redis.finding import ServerFinder, key_slot
from homing.queue.redis.replies import ResponseError

SENTINELS = "redis+sentinel://u:data@a:1,b:2,c:3/main?sentinel_password=eye"
CLUSTER = "redis+cluster://:pw@a:1,b:2"


class Nodes:
    """Stands for the network: an answer, an error, or silence for each node."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Credentials, tuple[str, ...]]] = []

    async def __call__(self, node: Address, credentials: Credentials, words: tuple[str, ...]) -> Any:
        self.asked.append((node.host, credentials, words))
        answer = self.answers.get(node.host, OSError("refused"))
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer[0]

    def hosts(self) -> str:
        """Whom was asked since the last call, in order."""
        hosts = "".join(host for host, _, _ in self.asked)
        self.asked.clear()
        return hosts


def finder(url: str, nodes: Nodes, prefix: str = "shop") -> ServerFinder:
    """A finder on the stand-in."""
    return ServerFinder(parse_url(url).for_prefix(prefix), nodes)


async def test_a_single_server_is_where_its_url_says() -> None:
    """Nobody is asked."""
    nodes = Nodes()
    assert await finder("redis://cache:7", nodes).find() == Address("cache", 7)
    assert nodes.hosts() == ""


async def test_sentinels_are_asked_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses and one that is silent do not hide the third, which is asked first from then on."""
    monkeypatch.setattr(finding, "ASK_SECONDS", 0.01)
    nodes = Nodes(b=None, c=([b"10.0.0.5", b"6380"],))
    subject = finder(SENTINELS, nodes)
    assert await subject.find() == Address("10.0.0.5", 6380)
    words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
    assert nodes.asked[-1] == ("c", Credentials(None, "eye"), words)
    assert nodes.hosts() == "abc"
    await subject.find()
    assert nodes.hosts() == "c"


async def test_whoever_named_a_lost_server_is_asked_last() -> None:
    """It may be cut off from the others, and name the old primary for ever."""
    nodes = Nodes(a=([b"old", b"1"],), b=([b"new", b"1"],))
    subject = finder(SENTINELS, nodes)
    assert (await subject.find()).host == "old"
    subject.doubt()
    assert (await subject.find()).host == "new"


async def test_nobody_who_knows_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has what each of them said, and no password."""
    monkeypatch.setattr(finding, "ASK_SECONDS", 0.01)
    with pytest.raises(ServerUnavailable) as raised:
        await finder(SENTINELS, Nodes(b=None, c=(None,))).find()
    said = str(raised.value)
    assert "a:1: refused" in said
    assert "b:2: no answer within 0.01 s" in said
    assert "c:3: knows no service 'main'" in said
    assert "data" not in said


@pytest.mark.parametrize(("url", "kind"), [(SENTINELS, "no Sentinel"), (CLUSTER, "no node of a cluster")])
async def test_a_server_of_another_kind_is_a_mistake(url: str, kind: str) -> None:
    """A plain server behind such a URL will never know: nothing is gained by asking again."""
    with pytest.raises(ConfigurationError, match=kind):
        await finder(url, Nodes(a=ResponseError("ERR unknown command"))).find()


def slots(*ranges: tuple[int, int, bytes | None, int]) -> tuple[list[Any]]:
    """An answer to CLUSTER SLOTS, each range with a replica on port 9."""
    return ([[first, last, [host, port, b"id"], [b"r", 9, b"id"]] for first, last, host, port in ranges],)


async def test_the_holder_of_the_prefix_is_found() -> None:
    """By the slot of the hash tag that all keys have; nodes that were heard of can be asked when those of the URL are gone."""
    slot = key_slot("shop")
    nodes = Nodes(a=slots((0, slot - 1, b"x", 1), (slot, slot, b"y", 2), (slot + 1, 16_383, b"z", 3)))
    subject = finder(CLUSTER, nodes)
    assert await subject.find() == Address("y", 2)
    assert nodes.asked[-1] == ("a", Credentials(None, "pw"), ("CLUSTER", "SLOTS"))
    nodes.answers = {"z": slots((0, 16_383, b"x", 1))[0:1]}
    assert await subject.find() == Address("x", 1)
    assert nodes.hosts()[:2] == "aa"


@pytest.mark.parametrize("host", [None, b"", b"?"])
async def test_a_node_that_names_no_host_is_where_it_was_asked(host: bytes | None) -> None:
    """As the protocol has it for nodes that do not know their own address."""
    assert await finder(CLUSTER, Nodes(a=slots((0, 16_383, host, 5)))).find() == Address("a", 5)


async def test_a_slot_without_a_node_is_an_outage() -> None:
    """The others are asked too, then the error says so."""
    with pytest.raises(ServerUnavailable, match=r"no node holds slot \d+ of the keys \{shop\}"):
        await finder(CLUSTER, Nodes(a=slots(), b=slots())).find()


@pytest.mark.parametrize(("tag", "slot"), [("123456789", 0x31C3), ("", 0), ("foo", 12_182), ("user1000", 3_443)])
def test_slots_are_those_of_the_specification(tag: str, slot: int) -> None:
    """The first is the checksum's own example."""
    assert key_slot(tag) == slot
