"""Finishing together: jobs that complete in the same turn of the loop leave in one call, which claims as many next ones."""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass

from homing.queue.port import MOST_TOGETHER, ClaimRequest, Completion, Engine, Finished


@dataclass(frozen=True, slots=True)
class _Leaving:
    completion: Completion
    claim_next: ClaimRequest
    answer: asyncio.Future[Finished]


class Finisher:
    """Completes jobs. A lone one leaves at once, as it would without all this; nothing waits for a crowd to gather."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._leaving: dict[str, list[_Leaving]] = {}
        self._calls: set[asyncio.Task[None]] = set()

    async def complete(self, completion: Completion, claim_next: ClaimRequest | None) -> Finished:
        """As `Engine.complete`: the job's own answer, or its error."""
        if claim_next is None:
            return await self._complete_alone(completion, None)
        queue = completion.job.lease.queue
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Finished] = loop.create_future()
        if queue not in self._leaving:
            self._leaving[queue] = []
            loop.call_soon(self._leave, queue, context=Context())  # it is no single job's doing
        self._leaving[queue].append(_Leaving(completion, claim_next, answer))
        return await answer

    async def complete_group(
        self, queue: str, completions: Sequence[Completion], claim_next: ClaimRequest | None, most: int | None = None
    ) -> Sequence[Finished | Exception]:
        """As `Engine.complete_group`; errors are answers, and nothing is raised."""
        try:
            if len(completions) == 1:
                return [await self._complete_alone(completions[0], claim_next)]
            return await self.engine.complete_group(queue, completions, claim_next, most)
        except Exception as error:  # noqa: BLE001 - handed on to those whom it stands for
            return [error] * len(completions)

    def _leave(self, queue: str) -> None:
        crowd = self._leaving.pop(queue)
        for start in range(0, len(crowd), MOST_TOGETHER):
            call = asyncio.create_task(self._call(queue, crowd[start : start + MOST_TOGETHER]))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, queue: str, group: Sequence[_Leaving]) -> None:
        answers = await self.complete_group(queue, [each.completion for each in group], group[0].claim_next)
        for each, answer in zip(group, answers, strict=True):
            _hand_over(answer, each.answer)

    async def _complete_alone(self, each: Completion, claim_next: ClaimRequest | None) -> Finished:
        return await self.engine.complete(each.job, each.result, mark=each.mark, keep=each.keep, claim_next=claim_next)


def _hand_over(answer: Finished | Exception, waiting: asyncio.Future[Finished]) -> None:
    if waiting.done():  # whoever waited was told to end
        return
    if isinstance(answer, Finished):
        waiting.set_result(answer)
    else:
        waiting.set_exception(answer)
