"""Progress and logs of jobs, in BullMQ's own scripts: what a run writes here, every tool shows."""

from collections.abc import Sequence

from homing.ids import JobId, LeaseToken
from homing.queue.notes import KEPT_LINES, LONGEST_LINE, LogPage
from homing.queue.redis.encoding import encodable
from homing.queue.redis.looking import RedisLooking
from homing.queue.redis.scripts import ScriptCall, run, run_many


class RedisNoting(RedisLooking):
    """The part of the engine that keeps what runs tell."""

    async def note_progress(
        self, queue: str, job_id: JobId, progress: str, *, holder: LeaseToken | None = None
    ) -> bool:
        """Let the job show this progress, and tell those who follow the queue's events."""
        if await self._is_anothers(queue, job_id, holder):
            return False
        keys = self._keys(queue)
        reply = await run(self._main, self._scripts.update_progress, keys.progress(job_id), job_id, encodable(progress))
        return bool(reply == 0)

    async def note_lines(
        self, queue: str, job_id: JobId, lines: Sequence[str], *, holder: LeaseToken | None = None
    ) -> bool:
        """Add lines to the job's log, in one write."""
        if await self._is_anothers(queue, job_id, holder):
            return False
        keys = self._keys(queue)
        names = (keys.part(job_id), keys.logs(job_id))
        kept = [encodable(line[:LONGEST_LINE]) for line in lines[-KEPT_LINES:]]
        replies = await run_many(
            self._main, [ScriptCall(self._scripts.add_log, names, (job_id, line, KEPT_LINES)) for line in kept]
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return all(reply >= 0 for reply in replies)

    async def read_lines(self, queue: str, job_id: JobId, *, first: int = 0, most: int = 100) -> LogPage:
        """Lines of a job's log, from the line with this number."""
        key, start = self._keys(queue).logs(job_id), max(0, first)
        total, lines = await self._together(("LLEN", key), ("LRANGE", key, start, start + max(1, most) - 1))
        return LogPage(tuple(line.decode(errors="replace") for line in lines), start, int(total))

    async def _is_anothers(self, queue: str, job_id: JobId, holder: LeaseToken | None) -> bool:
        """Whether another run than `holder` has the job. BullMQ's scripts do not ask: what is told decides nothing."""
        if holder is None:
            return False
        token = await self._main.call("GET", self._keys(queue).lock(job_id))
        return token is not None and token.decode() != holder
