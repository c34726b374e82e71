"""Groups of jobs for an engine that has no better way: one after the other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from homing.errors import HomingError
from homing.ids import LeaseToken
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest, Claims, Completion, Finished, Idle


class Single(Protocol):
    """What moves one job."""

    async def claim(self, queue: str, request: ClaimRequest) -> ClaimedJob | Idle: ...

    async def complete(
        self, job: ClaimedJob, result: str, *, mark: str | None, keep: KeepRule, claim_next: ClaimRequest | None
    ) -> Finished: ...


class OneByOne:
    """The calls for several jobs, made of those for one."""

    async def claim_group(self: Single, queue: str, request: ClaimRequest, most: int) -> Claims:
        """Lease the next jobs, up to `most` of them."""
        jobs: list[ClaimedJob] = []
        while len(jobs) < most:
            claimed = await self.claim(queue, numbered(request, len(jobs) + 1))
            if isinstance(claimed, Idle):
                return Claims(jobs, claimed)
            jobs.append(claimed)
        return Claims(jobs)

    async def complete_group(
        self: Single,
        queue: str,
        completions: Sequence[Completion],
        claim_next: ClaimRequest | None,
        most: int | None = None,
    ) -> list[Finished | HomingError]:
        """Complete several jobs and claim as many next ones, or fewer."""
        del queue
        answers: list[Finished | HomingError] = []
        for number, each in enumerate(completions, 1):
            is_enough = most is not None and number > most
            request = None if claim_next is None or is_enough else numbered(claim_next, number)
            try:
                done = await self.complete(each.job, each.result, mark=each.mark, keep=each.keep, claim_next=request)
            except HomingError as error:
                answers.append(error)
            else:
                answers.append(done)
        return answers


def numbered(request: ClaimRequest, number: int) -> ClaimRequest:
    """The request for one lease of several."""
    return replace(request, token=numbered_token(request.token, number))


def numbered_token(token: LeaseToken, number: int) -> LeaseToken:
    """The token of one lease of several: one per claim, never used again."""
    return LeaseToken(f"{token}-{number}")
