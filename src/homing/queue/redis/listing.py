"""Reading what takes longer than a look: in which structure a job is, and what a finished one left behind."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from homing.ids import JobId
from homing.queue.job import JobEnd
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.looking import RedisLooking

PAGE_LISTED = 5_000
"""Ids of a list that are read at once: what the server does meanwhile waits for no longer than that takes."""

_LISTS = ("wait", "paused", "active")
_SETS = ("delayed", "prioritized", "waiting-children")


class RedisListing(RedisLooking):
    """The part of the engine that answers the questions of an audit."""

    async def listed(self, queue: str, ids: Collection[JobId]) -> set[JobId]:
        """Those of `ids` that wait, run or are delayed: lists are read in pages, of sets the scores."""
        keys = self._keys(queue)
        missing = set(ids)
        for name in _LISTS:
            missing -= await self._in_list(keys.part(name), missing)
        missing -= await self._in_sets(keys, sorted(missing))
        return set(ids) - missing

    async def ends(self, queue: str, ids: Sequence[JobId]) -> list[JobEnd]:
        """What finished jobs left behind, one answer per id."""
        keys = self._keys(queue)
        fields = ("returnvalue", "failedReason", "stacktrace", "atm")
        return [
            _end(*found) for found in await self._together(*(("HMGET", keys.part(job_id), *fields) for job_id in ids))
        ]

    async def _in_list(self, key: str, wanted: Collection[JobId]) -> set[JobId]:
        """A list grows at its head and is taken from at its tail: reading on from the head misses nothing that stays."""
        found: set[JobId] = set()
        start = 0
        while len(found) < len(wanted):
            page: list[bytes] = await self._main.call("LRANGE", key, start, start + PAGE_LISTED - 1)
            found.update(job_id for raw in page if (job_id := JobId(raw.decode(errors="replace"))) in wanted)
            start += PAGE_LISTED
            if len(page) < PAGE_LISTED:
                break
        return found

    async def _in_sets(self, keys: QueueKeys, ids: Sequence[JobId]) -> set[JobId]:
        asked = [(name, job_id) for name in _SETS for job_id in ids]
        scores = await self._together(*(("ZSCORE", keys.part(name), job_id) for name, job_id in asked))
        return {job_id for (_, job_id), score in zip(asked, scores, strict=True) if score is not None}


def _end(result: bytes | None, reason: bytes | None, stack: bytes | None, attempts: bytes | None) -> JobEnd:
    return JobEnd(
        result=None if result is None else result.decode(errors="replace"),
        reason="" if reason is None else reason.decode(errors="replace"),
        stack=_last_stack(stack),
        attempts_made=int(attempts) if attempts is not None and attempts.isdigit() else 0,
    )


def _last_stack(stored: bytes | None) -> str:
    """BullMQ keeps a list of stacks, the last run's at its end; anybody may have written something else."""
    if stored is None:
        return ""
    try:
        stacks: Any = json.loads(stored)
    except (ValueError, RecursionError):
        return stored.decode(errors="replace")
    match stacks:
        case [*_, str(last)]:
            return last
        case _:
            return ""
