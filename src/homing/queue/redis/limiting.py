"""What a queue imposes on all its workers, in BullMQ's own keys: pauses, rate limit, concurrency."""

from homing.queue.port import Limit, QueueSettings
from homing.queue.redis.encoding import milliseconds
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.link import Word
from homing.queue.redis.scripts import own_script, run
from homing.queue.redis.session import RedisSession

NEVER_BINDING_JOBS = 1_000_000_000
"""The limit that a pause gives to a queue without one: no queue starts that many jobs in a second."""

_NEVER_BINDING = Limit(NEVER_BINDING_JOBS, 1.0)
_PAUSED = 2**53 - 1  # what BullMQ itself writes: more than any max


class RedisLimiting(RedisSession):
    """The part of the engine that bounds what workers may start."""

    async def throttle(self, queue: str, seconds: float, limit: Limit | None) -> None:
        """Let no worker, ours or Node's, start a job of the queue for `seconds` from now."""
        keys = self._keys(queue)
        max_jobs, duration_ms = _fields(limit or _NEVER_BINDING)
        pause_ms = max(1, milliseconds(seconds))
        await run(
            self._main, own_script("throttle-2"), (keys.limiter, keys.meta), pause_ms, max_jobs, duration_ms, _PAUSED
        )

    async def push_settings(self, queue: str, settings: QueueSettings) -> None:
        """Write the fields of `meta` that BullMQ's scripts read at every claim."""
        keys = self._keys(queue)
        commands: list[tuple[Word, ...]] = []
        match settings.concurrency:
            case None:
                commands.append(("HDEL", keys.meta, "concurrency"))
            case int(concurrency):
                commands.append(("HSET", keys.meta, "concurrency", concurrency))
        match settings.limit:
            case None if not await self._is_paused_without_limit(keys):
                commands.append(("HDEL", keys.meta, "max", "duration"))
            case Limit() as limit:
                max_jobs, duration_ms = _fields(limit)
                commands.append(("HSET", keys.meta, "max", max_jobs, "duration", duration_ms))
        for command in commands:
            await self._main.call(*command)
        if isinstance(settings.paused, bool):
            await self._pause(keys, paused=settings.paused)
        if commands:  # whoever waits for a slot or a permit looks at the new terms
            await self._main.call("ZADD", keys.marker, 0, "0")

    async def _pause(self, keys: QueueKeys, *, paused: bool) -> None:
        """Where the queue is not as it should be; resuming takes several calls where BullMQ 5 left many jobs apart."""
        lie_apart = not paused and await self._main.call("EXISTS", keys.part("paused"))
        if not lie_apart and await self._main.call("HEXISTS", keys.meta, "paused") == int(paused):
            return
        left = 1
        while left:
            word = "paused" if paused else "resumed"
            left = await run(self._main, self._scripts.pause, keys.pause(paused=paused), word, "1")

    async def _is_paused_without_limit(self, keys: QueueKeys) -> bool:
        """Whether the limit in Redis only makes workers heed a pause; nobody declared it, and nobody takes it away."""
        return bool(await self._main.call("HGET", keys.meta, "max") == str(NEVER_BINDING_JOBS).encode())


def _fields(limit: Limit) -> tuple[int, int]:
    """`max` and `duration` in BullMQ's units."""
    return limit.jobs, max(1, milliseconds(limit.seconds))
