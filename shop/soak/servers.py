"""What happens to PostgreSQL and Valkey."""

import asyncio
import os
import signal

from redis.asyncio import Redis

from shop.soak.processes import FROZEN_SECONDS
from shop.soak.scene import Scene

MOST_OF_THE_LOG_LOST = 0.3


async def flush_valkey(scene: Scene, _: float) -> str:
    """FLUSHALL: every job, lock and setting is gone, and the server goes on as if nothing had been."""
    async with scene.valkey_turn, Redis.from_url(scene.valkey.url()) as client:
        keys = await client.dbsize()
        await client.flushall()
    return f"{keys} keys"


async def kill_valkey(scene: Scene, _: float) -> str:
    """SIGKILL and a new start: what it had answered is there again, under a new identity."""
    async with scene.valkey_turn:
        await asyncio.to_thread(scene.valkey.kill)
        await asyncio.to_thread(scene.valkey.start)
    return "nothing lost"


async def freeze_valkey(scene: Scene, _: float) -> str:
    """SIGSTOP and SIGCONT: it accepts connections, answers nothing for a while, and then finds that every lease has ended."""
    async with scene.valkey_turn:
        pid, guard = scene.valkey.pid, scene.stage.guard
        guard.watch(pid)  # nobody could stop it in good order while it is frozen
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(FROZEN_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)
            guard.forget(pid)
    return f"for {FROZEN_SECONDS:g} s"


async def cut_valkey_short(scene: Scene, pick: float) -> str:
    """SIGKILL, and the end of the log never reached the disk: it comes back as it was a while ago."""
    async with scene.valkey_turn:
        await asyncio.to_thread(scene.valkey.kill)
        size = scene.valkey.log_bytes
        lost = int(size * pick * MOST_OF_THE_LOG_LOST)
        scene.valkey.rewind(size - lost)
        await asyncio.to_thread(scene.valkey.start)
    return f"{lost:,} of {size:,} bytes"


async def restart_postgres(scene: Scene, _: float) -> str:
    """A restart in good order: sessions are ended, transactions are rolled back."""
    async with scene.postgres_turn:
        await asyncio.to_thread(scene.postgres.restart)
    return "back again"


async def crash_postgres(scene: Scene, _: float) -> str:
    """A restart without a clean-up: sessions are cut, the server recovers from its own log."""
    async with scene.postgres_turn:
        await asyncio.to_thread(lambda: scene.postgres.restart(immediate=True))
    return "recovered"
