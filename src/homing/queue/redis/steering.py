"""What people do to jobs and queues, in BullMQ's own scripts: what a queue tool of theirs would do, in steps that keep Redis answering."""

from homing.ids import JobId
from homing.queue.browse import JobState, Obliterated
from homing.queue.redis.encoding import milliseconds
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.scripts import run
from homing.queue.redis.session import RedisSession

PAGE_JOBS = 500
"""Jobs that one script removes: Redis answers nobody meanwhile."""

_ANY_TIME_MS = 9_999_999_999_999  # the script compares times as text, so that it has as many digits as they
_LINE = ("wait", "paused", "prioritized")
_OBLITERATED = {0: Obliterated.GONE, -1: Obliterated.NOT_PAUSED, -2: Obliterated.RUNNING}


class RedisSteering(RedisSession):
    """The part of the engine that carries out what people decide."""

    async def standing(self, queue: str, same_id: str) -> JobId | None:
        """The job that counts now for a de-duplication id."""
        job_id = await self._main.call("GET", self._keys(queue).deduplication(same_id))
        return None if job_id is None else JobId(job_id.decode(errors="replace"))

    async def lift(self, queue: str, same_id: str) -> bool:
        """Let no job count for a de-duplication id, as BullMQ's own tools do: what was kept for after the running job stays."""
        return bool(await self._main.call("DEL", self._keys(queue).deduplication(same_id)))

    async def promote(self, queue: str, job_id: JobId) -> bool:
        """Let a delayed job wait to be claimed now; `False` when it is not delayed."""
        keys = self._keys(queue)
        return bool(await run(self._main, self._scripts.promote, keys.promote, keys.base, job_id) == 0)

    async def rerun(self, queue: str, job_id: JobId) -> bool:
        """Let a failed job wait to be claimed again; its attempts and its starts are counted anew, its mark stays."""
        keys = self._keys(queue)
        arguments = (job_id, "LPUSH", "failedReason", "failed", "1", "1")
        return bool(await run(self._main, self._scripts.reprocess, keys.reprocess(job_id), *arguments) == 1)

    async def clean(self, queue: str, state: JobState, older_than_seconds: float, most: int) -> int:
        """Remove jobs that finished longer ago than that, the oldest first, at most so many."""
        if not state.finished:
            raise ValueError(f"{state.value} jobs have not finished: they are drained, removed or cancelled")
        before_ms = self._now_ms() - milliseconds(max(0.0, older_than_seconds))
        return await self._clean(self._keys(queue), state.value, before_ms, most)

    async def drain(self, queue: str, *, delayed: bool) -> int:
        """Remove the jobs that wait. BullMQ's own drain does it in one script, which stops Redis for seconds where there are many."""
        keys, drained = self._keys(queue), 0
        for part in (*_LINE, *(["delayed"] if delayed else [])):
            drained += await self._clean(keys, part, _ANY_TIME_MS, None)
        return drained

    async def obliterate(self, queue: str, *, force: bool) -> Obliterated:
        """Remove a paused queue, a page of its jobs after the other, then what is left of it."""
        keys, reply = self._keys(queue), 1
        while reply == 1:
            reply = await run(self._main, self._scripts.obliterate, keys.obliterate, PAGE_JOBS, "1" if force else "")
        if reply not in _OBLITERATED:
            raise self._not_understood(f"obliterating queue {queue}", reply)
        return _OBLITERATED[reply]

    async def _clean(self, keys: QueueKeys, part: str, before_ms: int, most: int | None) -> int:
        cleaned = 0
        while most is None or cleaned < most:
            page = PAGE_JOBS if most is None else min(PAGE_JOBS, most - cleaned)
            arguments = (keys.base, before_ms, page, part)
            removed = await run(self._main, self._scripts.clean, keys.clean(part), *arguments)
            cleaned += len(removed)
            if not removed:
                break
        return cleaned
