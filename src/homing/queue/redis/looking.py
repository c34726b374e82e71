"""Reading the engine's state without a lease, in constant time per job."""

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

from homing.ids import JobId
from homing.queue.job import JobCounts, JobTrace
from homing.queue.port import Observed
from homing.queue.redis.encoding import MARK_FIELD
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.link import Word
from homing.queue.redis.scripts import run
from homing.queue.redis.server import read_info
from homing.queue.redis.session import RedisSession

PAGE_IDS = 1000


class RedisLooking(RedisSession):
    """The part of the engine that answers questions."""

    async def observe(self, queue: str) -> Observed:
        """`run_id:master_replid:mark`: the process, its history, and a mark that a flush takes away, as it takes the pause."""
        keys = self._keys(queue)
        sent_at = time.time()
        now, server, replication, (mark, paused) = await self._together(
            ("TIME",), ("INFO", "server"), ("INFO", "replication"), ("HMGET", keys.meta, MARK_FIELD, "paused")
        )
        self._note_time(sent_at, int(now[0]) + int(now[1]) / 1_000_000)
        if mark is None:
            mark = await self._leave_mark(keys)
        run_id = read_info(server).get("run_id", "")
        replication_id = read_info(replication).get("master_replid", "")
        return Observed(f"{run_id}:{replication_id}:{mark.decode(errors='replace')}", paused is not None)

    async def inspect(self, queue: str, ids: Sequence[JobId]) -> list[JobTrace]:
        """What the engine knows of these ids, one answer per id; three constant-time reads each, 1,000 ids a pipeline."""
        keys = self._keys(queue)
        traces: list[JobTrace] = []
        for start in range(0, len(ids), PAGE_IDS):
            traces += await self._inspect_page(keys, ids[start : start + PAGE_IDS])
        return traces

    async def remove(self, queue: str, job_id: JobId) -> bool:
        """Remove a job that nobody is running; `False` when it is leased, or the pending run of a BullMQ scheduler."""
        keys = self._keys(queue)
        reply = await run(self._main, self._scripts.remove, keys.remove(job_id), job_id, "0", keys.base)
        return bool(reply == 1)

    async def counts(self, queue: str) -> JobCounts:
        """Jobs of the queue by state."""
        keys = self._keys(queue)
        lists = [("LLEN", keys.part(name)) for name in ("wait", "paused", "active")]
        names = ("delayed", "prioritized", "completed", "failed", "waiting-children")
        sets = [("ZCARD", keys.part(name)) for name in names]
        waiting, paused, active, delayed, prioritized, completed, failed, children = await self._together(*lists, *sets)
        return JobCounts(
            waiting=waiting + paused,
            active=active,
            delayed=delayed,
            prioritized=prioritized,
            completed=completed,
            failed=failed,
            waiting_children=children,
        )

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _together(self, *commands: tuple[Word, ...]) -> list[Any]:
        """Replies to commands that leave in one write; the first error is raised."""
        replies = await asyncio.gather(*(self._main.call(*words) for words in commands), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return replies

    async def _leave_mark(self, keys: QueueKeys) -> bytes:
        """Mark the queue's data; of two processes that mark at once, both read the one that was first."""
        library = f"bullmq:{self._scripts.library_version}"
        *_, mark = await self._together(
            ("HSETNX", keys.meta, MARK_FIELD, str(uuid.uuid4())),
            ("HSETNX", keys.meta, "version", library),
            ("HGET", keys.meta, MARK_FIELD),
        )
        if not isinstance(mark, bytes):
            raise self._not_understood(f"reading the mark of queue {keys.queue}", mark)
        return mark

    async def _inspect_page(self, keys: QueueKeys, ids: Sequence[JobId]) -> list[JobTrace]:
        failed = keys.part("failed")
        commands: list[tuple[Word, ...]] = []
        for job_id in ids:
            key = keys.part(job_id)
            commands.append(("HMGET", key, "name", "finishedOn", MARK_FIELD, "failedReason"))
            commands.append(("EXISTS", key))
            commands.append(("ZSCORE", failed, job_id))
        replies = await self._together(*commands)
        return [_trace(*replies[at : at + 3]) for at in range(0, len(replies), 3)]


def _trace(fields: list[bytes | None], exists: int, failed_at: bytes | None) -> JobTrace:
    name, finished_on, mark, reason = (None if field is None else field.decode(errors="replace") for field in fields)
    is_finished = finished_on is not None
    # A completed job may still show the reason of an earlier attempt: only membership in the failed set tells.
    has_failed = is_finished and failed_at is not None
    return JobTrace(
        exists=exists == 1,
        name=name,
        finished=is_finished,
        failed_reason=(reason or "") if has_failed else None,
        mark=mark,
    )
