"""Several jobs in one script of ours: completed, and as many next ones leased, at a third of what the official scripts ask of the server."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from homing.errors import HomingError
from homing.ids import LeaseToken, new_token
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.one_by_one import numbered, numbered_token
from homing.queue.port import ClaimRequest, Claims, Completion, Finished, Held, Idle
from homing.queue.redis import encoding
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.leasing import RedisLeasing
from homing.queue.redis.link import Word
from homing.queue.redis.replies import ResponseError
from homing.queue.redis.scripts import own_script, run

_log = logging.getLogger(__name__)

_NEEDS_OFFICIAL = 1
_FOR_EVER = KeepRule()
_AGAIN = Idle(retry_seconds=0.0)
_NOTHING = ClaimRequest(LeaseToken(""), 1.0)


class RedisGrouping(RedisLeasing):
    """The part of the engine that moves several jobs of a queue at once."""

    async def claim_group(self, queue: str, request: ClaimRequest, most: int) -> Claims:
        """Lease the next jobs, up to `most` of them; a lone one as everybody else leases it."""
        if most == 1:
            claimed = await self.claim(queue, request)
            return Claims([claimed]) if isinstance(claimed, ClaimedJob) else Claims([], claimed)
        _, claims = await self._move(self._keys(queue), [], most, request)
        return claims

    async def complete_group(
        self, queue: str, completions: Sequence[Completion], claim_next: ClaimRequest | None, most: int | None = None
    ) -> list[Finished | HomingError]:
        """Complete several jobs and lease as many next ones, or fewer. One of them removes what is not kept: the official script does that."""
        wanted = len(completions) if most is None else min(most, len(completions))
        if claim_next is None or wanted <= 0:
            claim_next, wanted = None, 0
        if any(each.keep != completions[0].keep or each.keep.count == 0 for each in completions):
            return await self._complete_each(completions, claim_next, wanted)
        keys = self._keys(queue)
        try:
            endings, claims = await self._move(keys, completions, wanted, claim_next or _NOTHING)
        except (
            ResponseError
        ):  # one of the keys is something else than it should be; whose it is, the others need not know
            return await self._complete_each(completions, claim_next, wanted)
        following: Iterator[ClaimedJob | Idle | None] = chain(claims.jobs, repeat(claims.idle or _AGAIN))
        together = max(0, wanted - len(completions) + endings.count(0))  # as the script reckons
        alone = wanted - together
        answers: list[Finished | HomingError] = []
        for each, ending in zip(completions, endings, strict=True):
            if ending == _NEEDS_OFFICIAL:
                answers.append(await self._complete_alone(each, claim_next if alone > 0 else None))
                alone -= 1
            elif ending == 0:
                answers.append(Finished(Held.HELD, next(following) if together > 0 else None))
                together -= 1
            else:
                answers.append(Finished(self._held(each.job, ending)))
        return answers

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _complete_each(
        self, completions: Sequence[Completion], request: ClaimRequest | None, most: int
    ) -> list[Finished | HomingError]:
        """One by one; the first ones lease the next jobs."""
        return [
            await self._complete_alone(each, request if place < most else None)
            for place, each in enumerate(completions)
        ]

    async def _complete_alone(self, each: Completion, request: ClaimRequest | None) -> Finished | HomingError:
        own = None if request is None else replace(request, token=new_token())
        try:
            return await self.complete(each.job, each.result, mark=each.mark, keep=each.keep, claim_next=own)
        except HomingError as error:
            return error

    async def _move(
        self, keys: QueueKeys, completions: Sequence[Completion], most: int, request: ClaimRequest
    ) -> tuple[list[int], Claims]:
        """Run the script; what became of each completion, and what was leased."""
        limit = request.limit
        words: list[Word] = [keys.base, self._now_ms(), len(completions), most, request.token]
        words += (max(1, encoding.milliseconds(request.lease_seconds)), request.worker)
        words += ("", "") if limit is None else (limit.jobs, max(1, encoding.milliseconds(limit.seconds)))
        words += _kept(completions[0].keep if completions else _FOR_EVER)
        for each in completions:
            lease = each.job.lease
            words += (lease.job_id, lease.token, encoding.encodable(each.result), each.mark or "")
        reply = await run(self._main, own_script("finishAndClaim-11"), keys.finish_and_claim, *words, at_once=True)
        endings, limit_ms, due_ms, *leased = reply
        return endings, await self._leased(keys, leased, self._idle(limit_ms, due_ms), request)

    async def _leased(self, keys: QueueKeys, leased: Sequence[Any], idle: Idle, request: ClaimRequest) -> Claims:
        """Read what the script leased. An id whose job is lost is dropped, and leaves its place free."""
        jobs: list[ClaimedJob] = []
        for number, values in enumerate(leased, 1):
            job = encoding.read_lease(keys.queue, values, numbered_token(request.token, number))
            if job is not None:
                jobs.append(job)
                continue
            _log.warning("dropping a job of queue %s whose data is lost: %r", keys.queue, values[0])
            await self._drop_ghost(keys, values[0], numbered(request, number), claims_next=False)
            idle = _AGAIN
        return Claims(jobs, idle)


def _kept(rule: KeepRule) -> tuple[Word, Word]:
    """How long and how many, as the script takes it."""
    milliseconds = "" if rule.age_seconds is None else encoding.milliseconds(rule.age_seconds)
    return milliseconds, "" if rule.count is None else rule.count
