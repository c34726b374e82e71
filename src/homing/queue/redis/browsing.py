"""Reading jobs for people: pages of a state, and one job with everything that is stored of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from homing.ids import JobId
from homing.queue.browse import (
    LAST_LINES,
    MOST_LISTED,
    JobPage,
    JobState,
    ListedJob,
    QueueTerms,
    ShownJob,
    read_cursor,
    start_after,
    write_cursor,
)
from homing.queue.port import Limit
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.limiting import NEVER_BINDING_JOBS
from homing.queue.redis.link import Word
from homing.queue.redis.looking import RedisLooking
from homing.queue.redis.picturing import LISTED_FIELDS, due_ms, picture_listed, picture_shown, whole_number

_LISTS = {JobState.WAITING: "wait", JobState.ACTIVE: "active"}
_SETS = (JobState.COMPLETED, JobState.FAILED, JobState.DELAYED, JobState.PRIORITIZED, JobState.WAITING_CHILDREN)


class _Place(NamedTuple):
    """Where a job is: its state, its score where that is a set, and how many jobs are claimed before it."""

    state: JobState | None
    score: float | None = None
    ahead: int | None = None


class RedisBrowsing(RedisLooking):
    """The part of the engine that shows jobs."""

    async def browse(
        self, queue: str, state: JobState, *, after: str | None = None, most: int = 100, newest_first: bool = False
    ) -> JobPage:
        """A page of the jobs of a state; where the last page ended is found by the id of its last job."""
        keys, count = self._keys(queue), min(max(1, most), MOST_LISTED)
        cursor = None if after is None else read_cursor(after)
        rank = None if cursor is None else await self._rank(keys, state, cursor[1], newest_first=newest_first)
        start = start_after(cursor, rank, newest_first=newest_first)
        found = await self._ids(keys, state, start, count + 1, newest_first=newest_first)
        jobs = await self._listed_jobs(keys, state, found[:count])
        more = write_cursor(start + count - 1, jobs[-1].id) if len(found) > count else None
        return JobPage(tuple(jobs), more, start)

    async def show(self, queue: str, job_id: JobId) -> ShownJob | None:
        """One job in full. Of one that waits, the line is walked to find its place; all else is constant time."""
        keys = self._keys(queue)
        key, logs = keys.part(job_id), keys.logs(job_id)
        flat, lease_ms, lines, last = await self._together(
            ("HGETALL", key), ("PTTL", keys.lock(job_id)), ("LLEN", logs), ("LRANGE", logs, -LAST_LINES, -1)
        )
        if not flat:
            return None
        place = await self._find(keys, job_id)
        return picture_shown(
            job_id,
            place.state,
            flat,
            score=place.score,
            ahead=place.ahead,
            lease_ms=lease_ms,
            log_lines=lines,
            logs=last,
        )

    async def glance(self, queue: str, ids: Sequence[JobId]) -> list[ListedJob]:
        """These jobs as a list shows them: their fields, the sets that may have them, and the running ones, which are few."""
        keys, active = self._keys(queue), self._keys(queue).part("active")
        commands: list[tuple[Word, ...]] = []
        for job_id in ids:
            commands.append(("HMGET", keys.part(job_id), *LISTED_FIELDS))
            commands.append(("LPOS", active, job_id))
            commands += [("ZSCORE", keys.part(state.value), job_id) for state in _SETS]
        replies, step = await self._together(*commands), 2 + len(_SETS)
        return [_glanced(job_id, *replies[at * step : (at + 1) * step]) for at, job_id in enumerate(ids)]

    async def terms(self, queue: str) -> QueueTerms:
        """The fields of `meta` that scripts read at every claim, and what is left of a window that is full."""
        keys = self._keys(queue)
        fields, started, left_ms = await self._together(
            ("HMGET", keys.meta, "paused", "concurrency", "max", "duration"),
            ("GET", keys.limiter),
            ("PTTL", keys.limiter),
        )
        paused, concurrency, max_jobs, duration_ms = fields
        jobs = whole_number(max_jobs)
        is_full = jobs > 0 and whole_number(started) >= jobs and left_ms > 0
        binds = 0 < jobs < NEVER_BINDING_JOBS
        return QueueTerms(
            paused=paused is not None,
            concurrency=whole_number(concurrency) or None,
            limit=Limit(jobs, max(1, whole_number(duration_ms)) / 1000) if binds else None,
            throttled_seconds=left_ms / 1000 if is_full else 0.0,
        )

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _rank(self, keys: QueueKeys, state: JobState, job_id: JobId, *, newest_first: bool) -> int | None:
        """The place of a job among those of its state; a list is searched from the end at which reading began."""
        if state in _LISTS:
            key = keys.part(_LISTS[state])
            at, length = await self._together(("LPOS", key, job_id, "RANK", 1 if newest_first else -1), ("LLEN", key))
            return None if at is None else int(at) if newest_first else int(length - 1 - at)
        rank = await self._main.call("ZREVRANK" if newest_first else "ZRANK", keys.part(state.value), job_id)
        return None if rank is None else int(rank)

    async def _ids(
        self, keys: QueueKeys, state: JobState, start: int, count: int, *, newest_first: bool
    ) -> list[JobId]:
        """Lists grow at their head and are taken from at their tail; sets are in the order of their scores."""
        last = start + count - 1
        raw: list[bytes]
        if state not in _LISTS:
            raw = await self._main.call("ZREVRANGE" if newest_first else "ZRANGE", keys.part(state.value), start, last)
        elif newest_first:
            raw = await self._main.call("LRANGE", keys.part(_LISTS[state]), start, last)
        else:
            raw = await self._main.call("LRANGE", keys.part(_LISTS[state]), -last - 1, -start - 1)
            raw.reverse()
        return [JobId(job_id.decode(errors="replace")) for job_id in raw]

    async def _listed_jobs(self, keys: QueueKeys, state: JobState, ids: Sequence[JobId]) -> list[ListedJob]:
        commands: list[tuple[Word, ...]] = [("HMGET", keys.part(job_id), *LISTED_FIELDS) for job_id in ids]
        scores: list[Any] = [None] * len(ids)
        if state is JobState.DELAYED:
            commands += [("ZSCORE", keys.delayed, job_id) for job_id in ids]
        replies = await self._together(*commands)
        if state is JobState.DELAYED:
            scores = replies[len(ids) :]
        return [
            picture_listed(job_id, state, fields, due=due_ms(state, score))
            for job_id, fields, score in zip(ids, replies, scores, strict=False)
        ]

    async def _find(self, keys: QueueKeys, job_id: JobId) -> _Place:
        """The structure that holds a job: the sets by its score, then the running ones, which are few, then the line."""
        questions: list[tuple[Word, ...]] = [("ZSCORE", keys.part(state.value), job_id) for state in _SETS]
        *scores, first, running = await self._together(
            *questions, ("ZRANK", keys.part("prioritized"), job_id), ("LPOS", keys.part("active"), job_id)
        )
        for state, score in zip(_SETS, scores, strict=True):
            if score is not None:
                return _Place(state, float(score), first if state is JobState.PRIORITIZED else None)
        if running is not None:
            return _Place(JobState.ACTIVE)
        ahead = await self._rank(keys, JobState.WAITING, job_id, newest_first=False)
        if ahead is not None:
            return _Place(JobState.WAITING, ahead=ahead)
        apart = await self._main.call("LPOS", keys.part("paused"), job_id)  # where an older BullMQ kept them
        return _Place(None if apart is None else JobState.WAITING)


def _glanced(job_id: JobId, fields: Sequence[bytes | None], running: int | None, *scores: bytes | None) -> ListedJob:
    in_set = next(
        ((state, score) for state, score in zip(_SETS, scores, strict=True) if score is not None), (None, None)
    )
    state, score = in_set
    if running is not None:
        state = JobState.ACTIVE
    elif state is None and fields[0] is not None:
        state = JobState.WAITING
    return picture_listed(job_id, state, fields, due=due_ms(state, score))
