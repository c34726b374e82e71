"""Claiming jobs and finishing them: one script call each, guarded by the token of the lease."""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from homing.errors import ServerUnavailable
from homing.ids import JobId
from homing.queue.job import ClaimedJob, KeepRule, Lease
from homing.queue.port import ClaimRequest, Finished, Held, Idle
from homing.queue.redis import encoding
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.scripts import own_script, run
from homing.queue.redis.session import RedisSession

_log = logging.getLogger(__name__)

_HELD = {0: Held.HELD, -1: Held.MISSING, -2: Held.MISSING, -3: Held.TAKEN, -6: Held.TAKEN}
_HAS_CHILDREN = (-4, -9)
_NEVER = 1_000_000_000
_MOST_GHOSTS_PER_CLAIM = 100


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a job ends: the set it moves to, the field that tells its result, what else is written, how long it is kept."""

    target: str
    field: str
    value: str
    updates: bytes
    keep: KeepRule


class RedisLeasing(RedisSession):
    """The part of the engine that hands jobs out and takes them back."""

    async def claim(self, queue: str, request: ClaimRequest) -> ClaimedJob | Idle:
        """Lease the next job, if there is one."""
        keys = self._keys(queue)
        options = encoding.pack(encoding.claim_options(request))
        reply = await run(
            self._main, self._scripts.move_to_active, keys.move_to_active, keys.base, self._now_ms(), options
        )
        return await self._claimed(keys, reply, request)

    async def complete(
        self, job: ClaimedJob, result: str, *, mark: str | None, keep: KeepRule, claim_next: ClaimRequest | None
    ) -> Finished:
        """End a job as completed; lease the next one in the same script."""
        ending = _Ending("completed", "returnvalue", encoding.encodable(result), encoding.mark_update(mark), keep)
        return await self._finished(job, await self._finish(job, ending, claim_next), claim_next)

    async def fail(
        self,
        job: ClaimedJob,
        reason: str,
        *,
        stack: str,
        mark: str | None,
        keep: KeepRule,
        claim_next: ClaimRequest | None,
    ) -> Finished:
        """End a job as failed for good; lease the next one in the same script."""
        ending = _Ending(
            "failed", "failedReason", encoding.encodable(reason), encoding.field_updates(mark, stack=stack), keep
        )
        return await self._finished(job, await self._finish(job, ending, claim_next), claim_next)

    async def retry(
        self,
        job: ClaimedJob,
        delay_seconds: float,
        *,
        spend_attempt: bool,
        reason: str,
        stack: str,
        claim_next: ClaimRequest | None,
        refund_start: bool = False,
    ) -> Finished:
        """Give a job back to run again. Without a delay it goes to the end of the line."""
        starts = job.starts - 1 if refund_start else None
        updates = encoding.field_updates(reason=reason, stack=stack, starts=starts)
        if delay_seconds <= 0 and spend_attempt:
            reply = await self._retry_now(job, updates)
        else:
            reply = await self._retry_later(job, delay_seconds, updates, claim_next, spend_attempt=spend_attempt)
        if isinstance(reply, list):
            return await self._finished(job, reply, claim_next)
        return await self._then_claim(job, self._held(job, reply), claim_next)

    async def release(self, job: ClaimedJob) -> Held:
        """Give a job back untouched, to be claimed next."""
        keys, job_id = self._of(job)
        names = (keys.part(job_id), keys.lock(job_id))
        await run(self._main, own_script("refundStart-2"), names, job.lease.token, job.starts - 1)
        arguments = (job_id, job.lease.token, keys.part(job_id))
        reply = await run(self._main, self._scripts.move_to_wait, keys.move_to_wait, *arguments)
        held = self._held(job, min(reply, 0))  # a positive answer is the time left of the queue's limit
        if held is Held.HELD:
            await self._wake_others(keys)
        return held

    async def rescue(self, queue: str, interval_seconds: float) -> list[JobId]:
        """Put running jobs whose lease is missing at two looks back to waiting, whichever worker looks."""
        keys = self._keys(queue)
        interval_ms = max(1, encoding.milliseconds(interval_seconds))
        arguments = (_NEVER, keys.base, self._now_ms(), interval_ms)
        reply = await run(self._main, self._scripts.move_stalled, keys.move_stalled, *arguments)
        return [JobId(job_id.decode(errors="replace")) for job_id in reply]

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _of(self, job: ClaimedJob) -> tuple[QueueKeys, JobId]:
        return self._keys(job.lease.queue), job.lease.job_id

    async def _finish(self, job: ClaimedJob, ending: _Ending, claim_next: ClaimRequest | None) -> Any:
        keys, job_id = self._of(job)
        target = keys.move_to_finished(ending.target, job_id)
        fetch = "" if claim_next is None else "1"
        options = encoding.finish_options(job, ending.keep, claim_next)
        identity = (job_id, self._now_ms(), ending.field, ending.value, ending.target)
        arguments = (*identity, fetch, keys.base, options, ending.updates)
        reply = await run(self._main, self._scripts.move_to_finished, target, *arguments)
        if reply not in _HAS_CHILDREN:
            return reply
        names = (keys.part(job_id), keys.lock(job_id))  # it is done whatever they come to: the ledger says so
        answer = await run(self._main, own_script("letChildrenGo-2"), names, job.lease.token)
        return await run(self._main, self._scripts.move_to_finished, target, *arguments) if answer == 1 else answer

    async def _then_claim(self, job: ClaimedJob, held: Held, claim_next: ClaimRequest | None) -> Finished:
        """The answer to a script that gave a job up and cannot lease the next."""
        if held is not Held.HELD:
            return Finished(held)
        if claim_next is None:
            return await self._without_next(job)
        return Finished(held, await self._or_nothing(job.lease.queue, self.claim(job.lease.queue, claim_next)))

    async def _without_next(self, job: ClaimedJob) -> Finished:
        """The answer to a finish that wants nothing more. The slot it frees may be what a bounded queue's other workers
        wait for, and no script tells them.
        """  # noqa: D205 - one thought
        await self._wake_others(self._keys(job.lease.queue))
        return Finished(Held.HELD)

    async def _wake_others(self, keys: QueueKeys) -> None:
        """Set the marker where a script leaves it out: for a job with a priority, and on a full queue."""
        try:
            await self._main.call("ZADD", keys.marker, 0, "0")
        except ServerUnavailable as error:
            _log.warning("a slot of queue %s became free; waiting workers notice only by time: %s", keys.queue, error)

    async def _or_nothing(self, queue: str, claiming: Awaitable[ClaimedJob | Idle]) -> ClaimedJob | Idle:
        """The claim that follows a finish: the finish took effect, and its answer must not be lost with the claim's."""
        try:
            return await claiming
        except ServerUnavailable as error:
            _log.warning("a job of queue %s was finished, but the next could not be claimed: %s", queue, error)
            return Idle(retry_seconds=0.0)

    async def _retry_now(self, job: ClaimedJob, updates: bytes) -> Any:
        keys, job_id = self._of(job)
        arguments = (keys.base, self._now_ms(), "LPUSH", job_id, job.lease.token, updates)
        return await run(self._main, self._scripts.retry, keys.retry(job_id), *arguments)

    async def _retry_later(
        self,
        job: ClaimedJob,
        delay_seconds: float,
        updates: bytes,
        claim_next: ClaimRequest | None,
        *,
        spend_attempt: bool,
    ) -> Any:
        keys, job_id = self._of(job)
        delay_ms = encoding.milliseconds(max(0.0, delay_seconds))
        skip = "0" if spend_attempt else "1"
        fetch, options = "0", b""
        if claim_next is not None:
            fetch, options = "1", encoding.pack(encoding.claim_options(claim_next))
        arguments = (keys.base, self._now_ms(), job_id, job.lease.token, delay_ms, skip, updates, fetch, options)
        return await run(self._main, self._scripts.move_to_delayed, keys.move_to_delayed(job_id), *arguments)

    async def _finished(self, job: ClaimedJob, reply: Any, claim_next: ClaimRequest | None) -> Finished:
        if not isinstance(reply, list):
            held = self._held(job, reply)
            if held is not Held.HELD:
                return Finished(held)
            return await self._without_next(job) if claim_next is None else Finished(held, Idle())
        if claim_next is None:
            raise self._not_understood(f"finishing {job.lease.job_id}", reply)
        keys = self._keys(job.lease.queue)
        return Finished(Held.HELD, await self._or_nothing(keys.queue, self._claimed(keys, reply, claim_next)))

    def _held(self, job: ClaimedJob, reply: Any) -> Held:
        held = _HELD.get(reply)
        if held is None:
            raise self._not_understood(f"finishing {job.lease.job_id}", reply)
        return held

    async def _claimed(self, keys: QueueKeys, reply: Any, request: ClaimRequest) -> ClaimedJob | Idle:
        """Read what a script leased. Ids whose job is lost are dropped on the way, a bounded number per call."""
        for dropped in range(1, _MOST_GHOSTS_PER_CLAIM + 1):
            if not isinstance(reply, list):
                return Idle()
            flat, job_id, limit_ms, due_ms = reply
            if not job_id:
                return self._idle(limit_ms, due_ms)
            job = encoding.read_claim(keys.queue, job_id, flat, request.token)
            if job is not None:
                return job
            if dropped == 1:
                _log.warning("dropping jobs of queue %s whose data is lost, the first is %r", keys.queue, job_id)
            reply = await self._drop_ghost(keys, job_id, request, claims_next=dropped < _MOST_GHOSTS_PER_CLAIM)
        return Idle(retry_seconds=0.0)

    def _idle(self, limit_ms: int, due_ms: int) -> Idle:
        if limit_ms:
            return Idle(retry_seconds=limit_ms / 1000, limited=True)
        if due_ms:
            return Idle(retry_seconds=max(0.0, (due_ms - self._now_ms()) / 1000))
        return Idle()

    async def _drop_ghost(self, keys: QueueKeys, job_id: bytes, request: ClaimRequest, *, claims_next: bool) -> Any:
        """Remove an id without a job from the running ones, with its hash; lease the next in the same script."""
        lease = Lease(keys.queue, JobId(job_id.decode(errors="replace")), request.token)
        ghost = ClaimedJob(lease=lease, name="", data="", timestamp_ms=0, attempts=1, starts=1, attempts_made=0)
        ending = _Ending("failed", "failedReason", "the data of this job was lost", b"", KeepRule(count=0))
        return await self._finish(ghost, ending, request if claims_next else None)
