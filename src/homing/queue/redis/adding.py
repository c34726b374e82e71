"""Adding jobs: many in one write, an answer for each."""

from collections.abc import Iterator, Sequence

from homing.ids import JobId
from homing.queue.admission import refusal
from homing.queue.job import NewJob
from homing.queue.port import Accepted, AddResult, Deduplicated, Refused
from homing.queue.redis import encoding
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.replies import ResponseError
from homing.queue.redis.scripts import ScriptCall, run_many
from homing.queue.redis.session import RedisSession

PAGE_JOBS = 1000
PAGE_CHARACTERS = 8_000_000

_NO_PARENT = -5


class RedisAdding(RedisSession):
    """The part of the engine that takes jobs."""

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult]:
        """Add jobs, each idempotent by its id; one answer per job, in order. A delay counts from now."""
        if len(jobs) == 1:
            return [await self._add_one(self._keys(queue), jobs[0])]
        answers: list[AddResult] = []
        for page in pages(jobs):
            answers += await self._add_page(self._keys(queue), page)
        return answers

    async def _add_one(self, keys: QueueKeys, job: NewJob) -> AddResult:
        """Whoever enqueues one job waits for it: gathering, and waiting for more to send, would cost two turns of the event loop."""
        if (error := refusal(job)) is not None:
            return Refused(error)
        call = self._add_call(keys, job)
        try:
            return read_add(job, await self._main.call_at_once(*call.words("EVALSHA", call.script.sha)))
        except ResponseError as refused:
            return (await self._add_page(keys, [job]))[0] if refused.code == "NOSCRIPT" else read_add(job, refused)

    async def _add_page(self, keys: QueueKeys, page: Sequence[NewJob]) -> list[AddResult]:
        refused = [refusal(job) for job in page]
        admitted = [job for job, error in zip(page, refused, strict=True) if error is None]
        replies = await run_many(self._main, [self._add_call(keys, job) for job in admitted])
        added = iter([read_add(job, reply) for job, reply in zip(admitted, replies, strict=True)])
        return [next(added) if error is None else Refused(error) for error in refused]

    def _add_call(self, keys: QueueKeys, job: NewJob) -> ScriptCall:
        delay_ms = 0
        if job.delay_seconds > 0:
            # BullMQ counts a delay from the job's timestamp, which here is when its cause happened.
            delay_ms = max(1, self._now_ms() + encoding.milliseconds(job.delay_seconds) - job.timestamp_ms)
        arguments = encoding.job_arguments(keys.base, job, delay_ms)
        if delay_ms:
            return ScriptCall(self._scripts.add_delayed, keys.add_delayed, arguments)
        if job.priority:
            return ScriptCall(self._scripts.add_prioritized, keys.add_prioritized, arguments)
        return ScriptCall(self._scripts.add_standard, keys.add_standard, arguments)


def pages(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Cut a long addition into pages of bounded number and size."""
    start = size = 0
    for at, job in enumerate(jobs):
        if at > start and (at - start >= PAGE_JOBS or size + len(job.data) > PAGE_CHARACTERS):
            yield jobs[start:at]
            start, size = at, 0
        size += len(job.data)
    if start < len(jobs):
        yield jobs[start:]


def read_add(job: NewJob, reply: object) -> AddResult:
    """What a script's reply to the adding of a job means."""
    if reply == job.id.encode():
        return Accepted.ACCEPTED
    if isinstance(reply, ResponseError):
        return Refused(f"Redis refused the job {job.id}: {reply}", for_good=False)
    if isinstance(reply, BaseException):
        raise reply
    if reply == _NO_PARENT:
        return Refused(f"the job {job.id} was not added: its parent is not there", for_good=False)
    if isinstance(reply, bytes) and job.deduplication is not None:
        return Deduplicated(JobId(reply.decode(errors="replace")))
    if isinstance(reply, bytes):
        return Refused(f"the job {job.id} was not added, the queue answered with {reply.decode(errors='replace')!r}")
    return Refused(f"the job {job.id} was not added, the script answered {reply!r}", for_good=False)
