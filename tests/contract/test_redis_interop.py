"""The official Python port on the same queue: what it writes we run, what we write it runs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from bullmq import Job, Queue, Worker  # type: ignore[import-untyped]  # it ships no types

from homing.backoff import Backoff
from homing.ids import JobId
from homing.queue.job import Deduplication, JobTrace, KeepRule
from homing.queue.port import Deduplicated
from homing.queue.redis import RedisEngine
from tests.contract.conftest import KEEP, QUEUE, Subject, ask
from tests.contract.conftest import job as new_job
from tests.waiting import until


@pytest.fixture
async def both(redis_url: str, redis_prefix: str) -> AsyncIterator[tuple[Subject, Any]]:
    """Our engine and the official queue object, side by side."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    await engine.open()
    queue = Queue(QUEUE, {"connection": redis_url, "prefix": redis_prefix})
    yield Subject(engine, redis_url), queue
    await queue.close()
    await engine.close()


async def test_a_job_of_the_official_queue_runs_here(both: tuple[Subject, Any]) -> None:
    """Its name, data, attempts and id arrive; when it is done here, the official queue sees it completed."""
    subject, queue = both
    job = await queue.add("welcome", {"to": "π"}, {"jobId": "official-1", "attempts": 4})
    claimed = await subject.claim()
    assert (claimed.lease.job_id, claimed.name, claimed.attempts) == ("official-1", "welcome", 4)
    assert claimed.data == '{"to":"\\u03c0"}'
    await subject.engine.complete(claimed, '{"sent":true}', mark="done", keep=KEEP, claim_next=None)
    assert await job.getState() == "completed"
    read = await Job.fromId(queue, "official-1")
    assert read.returnvalue == {"sent": True}


async def test_a_job_of_ours_is_read_by_the_official_port(both: tuple[Subject, Any]) -> None:
    """State and options mean the same to it: delays, priorities, failures."""
    subject, queue = both
    backoff = Backoff(kind="exponential", delay_seconds=1, jitter=0.5)
    await subject.add("a", data='{"n":1}', attempts=3, backoff=backoff, keep_completed=KeepRule(count=7))
    await subject.add("b", delay_seconds=60)
    await subject.add("c", priority=3)
    job = await Job.fromId(queue, "a")
    assert (job.name, job.data, job.attempts) == ("send", {"n": 1}, 3)
    assert job.opts["backoff"] == {"type": "exponential", "delay": 1000, "jitter": 0.5}
    assert job.opts["removeOnComplete"] == {"count": 7}
    states = [await (await Job.fromId(queue, job_id)).getState() for job_id in "abc"]
    assert states == ["waiting", "delayed", "prioritized"]
    claimed = await subject.claim()
    await subject.engine.fail(claimed, "no", stack="S", mark="dead:1", keep=KEEP, claim_next=None)
    failed = await Job.fromId(queue, "a")
    assert (await failed.getState(), failed.failedReason, failed.stacktrace) == ("failed", "no", ["S"])


async def test_a_job_of_ours_runs_in_the_official_worker(both: tuple[Subject, Any], redis_url: str) -> None:
    """A look tells that a stranger finished it: completed without our mark."""
    subject, queue = both
    await subject.add("a", data='{"n":20}')

    async def double(job: Any, token: str) -> int:
        del token
        doubled: int = job.data["n"] * 2
        return doubled

    worker = Worker(QUEUE, double, {"connection": redis_url, "prefix": queue.prefix})

    async def is_finished() -> JobTrace | None:
        (trace,) = await subject.engine.inspect(QUEUE, [JobId("a")])
        return trace if trace.finished else None

    trace = await until(is_finished)
    await worker.close()
    assert trace == JobTrace(exists=True, name="send", finished=True, mark=None)
    assert (await Job.fromId(queue, "a")).returnvalue == 40
    assert not hasattr(await subject.engine.claim(QUEUE, ask()), "lease")


async def test_what_a_run_tells_and_what_gives_way_mean_the_same_to_both(both: tuple[Subject, Any]) -> None:
    """Progress and lines of ours are shown there; a de-duplication id is one id, whoever adds first, and ends for both."""
    subject, queue = both
    same = Deduplication(id="order-7", keep_last_if_active=True)
    await subject.add("ours", deduplication=same)
    await subject.engine.note_progress(QUEUE, JobId("ours"), '{"page":3}')
    await subject.engine.note_lines(QUEUE, JobId("ours"), ["first", "second"])
    job = await Job.fromId(queue, "ours")
    assert (job.progress, job.opts["deduplication"]) == ({"page": 3}, {"id": "order-7", "keepLastIfActive": True})
    assert (await queue.getJobLogs("ours"))["logs"] == ["first", "second"]
    running = await subject.claim()
    theirs = await queue.add(
        "again", {}, {"deduplication": {"id": "order-7", "keepLastIfActive": True}, "jobId": "theirs"}
    )
    assert theirs.id == "ours"
    await subject.engine.complete(running, "null", mark=None, keep=KEEP, claim_next=None)
    assert await queue.getDeduplicationJobId("order-7") == "theirs"
    answer = await subject.engine.add(QUEUE, [new_job("late", deduplication=same)])
    assert answer == [Deduplicated(JobId("theirs"))]
    assert (await subject.claim()).name == "again"
