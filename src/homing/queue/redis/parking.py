"""Jobs that wait for a worker which knows them: delayed like any other, and noted by their kind."""

import asyncio
import logging
from collections.abc import Collection

from homing.errors import ServerUnavailable
from homing.ids import JobId
from homing.queue.job import ClaimedJob
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.queue.port import ClaimRequest, Finished, Held
from homing.queue.redis.encoding import encodable, milliseconds
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.leasing import RedisLeasing
from homing.queue.redis.scripts import ScriptCall, own_script, run, run_many

_log = logging.getLogger(__name__)

PAGE_JOBS = 1000
MOST_KINDS = 1000
_NOTE_LIVES_LONGER_SECONDS = 60.0
_SCORE_OF_MS = 0x1000  # BullMQ's scores of delayed jobs: the time in ms, and twelve bits of order


class RedisParking(RedisLeasing):
    """The part of the engine that sets aside what a worker does not know, and brings it back for one that does.

    The notes are two keys of ours beside the queue's own, which expire: `homing:parked` names the kinds, and one set for each kind holds
    its jobs. Nothing depends on them but speed and sight: a job without a note comes back when its time is up.
    """

    async def park(
        self, job: ClaimedJob, kind: ParkedKind, seconds: float, reason: str, *, claim_next: ClaimRequest | None
    ) -> Finished:
        """Give a job back to run again after `seconds`, or as soon as somebody unparks its kind."""
        finished = await self.retry(
            job, seconds, spend_attempt=False, refund_start=True, reason=reason, stack="", claim_next=claim_next
        )
        if finished.held is Held.HELD:
            await self._note_parked(self._keys(job.lease.queue), job.lease.job_id, kind, seconds)
        return finished

    async def parked(self, queue: str) -> list[ParkedJobs]:
        """The parked jobs of a queue by kind, in order: at most a thousand kinds."""
        keys, now = self._keys(queue), self._score_of_now()
        labels = await self._main.call("ZRANGEBYSCORE", keys.parked_kinds, now, "+inf", "LIMIT", 0, MOST_KINDS)
        kinds = [ParkedKind.read(label.decode(errors="replace")) for label in labels]
        counts = await asyncio.gather(*(self._main.call("ZCOUNT", _jobs_of(keys, kind), now, "+inf") for kind in kinds))
        return sorted(ParkedJobs(kind, count) for kind, count in zip(kinds, counts, strict=True) if count)

    async def unpark(self, queue: str, kinds: Collection[ParkedKind]) -> int:
        """Let the parked jobs of these kinds wait to be claimed now; how many there were."""
        return sum([await self._unpark(self._keys(queue), kind) for kind in kinds])

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _note_parked(self, keys: QueueKeys, job_id: JobId, kind: ParkedKind, seconds: float) -> None:
        note_ms = milliseconds(seconds + _NOTE_LIVES_LONGER_SECONDS)
        names = (keys.delayed, keys.parked_kinds, _jobs_of(keys, kind))
        try:
            await run(
                self._main, own_script("park-3"), names, job_id, encodable(kind.label), self._score_of_now(), note_ms
            )
        except ServerUnavailable as error:
            _log.warning("job %s is parked without a note and comes back in %g s: %s", job_id, seconds, error)

    async def _unpark(self, keys: QueueKeys, kind: ParkedKind) -> int:
        unparked, taken = 0, PAGE_JOBS
        while taken == PAGE_JOBS:
            names = (keys.delayed, _jobs_of(keys, kind))
            taken, ids = await run(self._main, own_script("takeParked-2"), names, PAGE_JOBS)
            calls = [ScriptCall(self._scripts.promote, keys.promote, (keys.base, job_id)) for job_id in ids]
            replies = await run_many(self._main, calls)
            for reply in replies:
                if isinstance(reply, BaseException):
                    raise reply
            unparked += replies.count(0)
        return unparked

    def _score_of_now(self) -> int:
        return self._now_ms() * _SCORE_OF_MS


def _jobs_of(keys: QueueKeys, kind: ParkedKind) -> str:
    return keys.parked_jobs(encodable(kind.label))
