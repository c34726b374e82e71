"""The Redis engine: Homing's engine protocol spoken in BullMQ's own scripts and key layout."""

from collections.abc import Collection, Sequence

from homing.queue.port import Extender
from homing.queue.redis.browsing import RedisBrowsing
from homing.queue.redis.connection import SILENCE_SECONDS
from homing.queue.redis.extender import RedisExtender
from homing.queue.redis.flowing import RedisFlowing
from homing.queue.redis.following import RedisFollowing
from homing.queue.redis.grouping import RedisGrouping
from homing.queue.redis.keyed import RedisKeyed
from homing.queue.redis.left_behind import LeftBehind, left_behind
from homing.queue.redis.limiting import RedisLimiting
from homing.queue.redis.listing import RedisListing
from homing.queue.redis.noting import RedisNoting
from homing.queue.redis.parking import RedisParking
from homing.queue.redis.scheduling import RedisScheduling
from homing.queue.redis.steering import RedisSteering
from homing.queue.redis.waiting import MarkerWatch

_EXTENDER_SILENCE_SECONDS = 2.0


class RedisEngine(
    RedisGrouping,
    RedisFlowing,
    RedisParking,
    RedisLimiting,
    RedisKeyed,
    RedisListing,
    RedisNoting,
    RedisFollowing,
    RedisBrowsing,
    RedisSteering,
    RedisScheduling,
):
    """Queues on Redis or Valkey that Node services and BullMQ's tools can share.

    `url`: redis://, rediss:// or unix://. `prefix`: what all keys start with. `allow_lossy`: accept a server that may
    evict jobs. `silence_seconds`: how long the server may leave calls unanswered. Opens nothing until `open`; belongs
    to the event loop that opens it.
    """

    name = "redis"

    def __init__(
        self, url: str, *, prefix: str = "bull", allow_lossy: bool = False, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        super().__init__(url, prefix=prefix, allow_lossy=allow_lossy, silence_seconds=silence_seconds)
        self._watch = MarkerWatch(self._url, self._main, self._now_ms, "homing-wait")

    async def open(self) -> None:
        """Connect, sign in and check the server; `UnsuitableServer`, `ConfigurationError` or `ServerUnavailable`."""
        await self._main.call("PING")

    async def close(self) -> None:
        """Close every connection; calls in flight fail with `ServerUnavailable`."""
        await self._watch.close()
        await self._main.close()

    async def wait(self, queues: Sequence[str], timeout_seconds: float) -> str | None:
        """Sleep until one of `queues` may have a claimable job, and name it; one wait at a time."""
        by_marker = {self._keys(queue).marker: queue for queue in queues}
        marker = await self._watch.wait(list(by_marker), timeout_seconds)
        return None if marker is None else by_marker[marker]

    async def interrupt(self) -> None:
        """Make a sleeping `wait` return `None` now."""
        self._watch.interrupt()

    async def left_behind(self, queues: Collection[str]) -> tuple[LeftBehind, ...]:
        """What BullMQ 5 keeps in these queues where nobody looks any more; those with nothing of it are left out."""
        return await left_behind(self._main, [self._keys(queue) for queue in queues])

    def extender(self) -> Extender:
        """A renewer for use in another thread; the caller closes it."""
        return RedisExtender(
            self._url,
            prefix=self._prefix,
            script=self._scripts.extend_lock,
            silence_seconds=_EXTENDER_SILENCE_SECONDS,
        )
