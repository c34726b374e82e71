"""A server that stops says so to idle connections before it closes them; who uses one in between meets a lost connection."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from homing.embedded import EmbeddedPostgres
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.ledger.statements import ANSWER
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
HEARD_SECONDS = 0.1
LAST_WORDS = b"E" + struct.pack("!I", 4 + len(_FIELDS)) + _FIELDS


@pytest.fixture
async def proxy(postgres_server: EmbeddedPostgres) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(postgres_server.port) as proxy:
        yield proxy


async def error_after(proxy: TcpProxy, ask: Callable[[], Awaitable[object]]) -> Exception:
    """What `ask` raises once the idle connection has heard the last words, and nothing after them."""
    await ask()
    proxy.say(LAST_WORDS)
    proxy.silence()
    said = asyncio.get_running_loop().time()
    await until(lambda: asyncio.get_running_loop().time() - said > HEARD_SECONDS, what="the words have arrived")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one it is, the test looks at
        await ask()
    return raised.value


async def test_the_ledger_is_away_and_comes_back(proxy: TcpProxy, database_url: str) -> None:
    """A statement on such a connection says that the server is unavailable, and the next one works."""
    ledger = Ledger(proxy.url(database_url), engine="redis", application="test", connections=1)
    await ledger.open()
    try:
        assert isinstance(await error_after(proxy, lambda: ledger.fetch(ANSWER)), ServerUnavailable)
        await proxy.heal()

        async def answers() -> bool:
            with contextlib.suppress(ServerUnavailable):
                return bool(await ledger.fetch(ANSWER))
            return False

        await until(answers, what="the ledger answers again")
    finally:
        await ledger.close()
