"""An engine that falls silent under a wait ends the wait as an outage."""

import asyncio

import pytest

from homing.embedded import EmbeddedValkey
from homing.errors import ServerUnavailable
from homing.queue.redis import RedisEngine
from tests.tcp_proxy import TcpProxy
from tests.waiting import until


async def test_a_first_wait_that_meets_silence_is_an_outage(
    valkey_server: EmbeddedValkey, redis_url: str, redis_prefix: str
) -> None:
    """The blocked command was handed over while its connection was made, and cannot be ended: the server is unavailable, nothing else."""
    async with TcpProxy(valkey_server.port) as proxy:
        engine = RedisEngine(proxy.url(redis_url), prefix=redis_prefix)
        await engine.open()
        try:
            connected = proxy.accepted
            wait = asyncio.create_task(engine.wait(["q"], 0.5))
            await until(lambda: engine._watch._blocking.is_connected and proxy.accepted > connected, what="it waits")
            proxy.silence()
            with pytest.raises(ServerUnavailable):
                await wait
        finally:
            await proxy.heal()
            await engine.close()
