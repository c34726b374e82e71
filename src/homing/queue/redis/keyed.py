"""Limits by key: a rate for every tenant or account, and pauses of one of them. BullMQ has none, so that the keys are ours."""

import hashlib

from homing.ids import JobId
from homing.queue.port import Limit
from homing.queue.redis.encoding import encodable, milliseconds
from homing.queue.redis.scripts import own_script, run
from homing.queue.redis.session import RedisSession

LONGEST_KEY = 200
_KEPT_MS = 60_000


class RedisKeyed(RedisSession):
    """The part of the engine that counts starts by key, for all workers of ours together."""

    async def permit(self, queue: str, job_id: JobId, key: str, limit: Limit | None) -> float:
        """Seconds until the job may start under its key; 0 = now, and the start is counted."""
        jobs, window_ms = (0, 0) if limit is None else (limit.jobs, max(1, milliseconds(limit.seconds)))
        names = (self._part(queue, "limit", key), self._part(queue, "line", key))
        wait_ms = await run(
            self._main, own_script("permit-2"), names, job_id, self._now_ms(), jobs, window_ms, _KEPT_MS
        )
        return float(wait_ms) / 1000

    async def pause_key(self, queue: str, key: str, seconds: float) -> None:
        """Let no job with this key start for `seconds`; a longer pause stays as it is."""
        names = (self._part(queue, "limit", key),)
        await run(self._main, own_script("pauseKey-1"), names, self._now_ms(), milliseconds(seconds), _KEPT_MS)

    def _part(self, queue: str, what: str, key: str) -> str:
        """A key beside the queue's own, which no job id can be like: it has a colon."""
        named = encodable(key) if len(key) <= LONGEST_KEY else hashlib.sha256(encodable(key).encode()).hexdigest()
        return self._keys(queue).part(f"homing:{what}:{named}")
