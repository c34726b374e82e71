"""What a look asks beyond single fields, and pauses: the same answers from every engine."""

import json

from bullmq import Queue  # type: ignore[import-untyped]  # it ships no types
from redis import Redis

from homing.ids import JobId
from homing.queue.job import JobEnd, KeepRule
from homing.queue.port import Idle, QueueSettings
from homing.queue.redis import RedisEngine, listing
from tests.contract.conftest import QUEUE, Subject, ask, job

KEEP = KeepRule()
PAUSED, RESUMED = QueueSettings(paused=True), QueueSettings(paused=False)


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(subject: Subject) -> None:
    """Jobs are taken in, none comes out; what runs may end; resuming wakes who waits."""
    await subject.add("a", "b")
    running = await subject.claim()
    await subject.engine.push_settings(QUEUE, PAUSED)
    await subject.engine.push_settings(QUEUE, PAUSED)
    assert (await subject.engine.observe(QUEUE)).paused
    await subject.add("c")
    assert await subject.engine.claim(QUEUE, ask()) == Idle()
    finished = await subject.engine.complete(running, "null", mark="done", keep=KEEP, claim_next=ask())
    assert isinstance(finished.next, Idle)
    assert (await subject.engine.counts(QUEUE)).waiting == 2
    await subject.engine.push_settings(QUEUE, RESUMED)
    assert not (await subject.engine.observe(QUEUE)).paused
    assert await subject.engine.wait([QUEUE], 5.0) == QUEUE
    assert [(await subject.claim()).lease.job_id for _ in range(2)] == ["b", "c"]


async def test_a_pause_nobody_speaks_of_stays(subject: Subject) -> None:
    """Pushing limits neither pauses nor resumes; a flush ends the pause with everything else."""
    await subject.engine.push_settings(QUEUE, PAUSED)
    await subject.engine.push_settings(QUEUE, QueueSettings(concurrency=3))
    before = await subject.engine.observe(QUEUE)
    assert before.paused
    subject.flush()
    after = await subject.engine.observe(QUEUE)
    assert (after.paused, after.identity != before.identity) == (False, True)


async def test_jobs_that_will_be_claimed_or_ended_are_listed(subject: Subject) -> None:
    """Waiting, prioritized, delayed and running jobs are; finished and unknown ones are not."""
    await subject.add("won", "lost", "runs", "waits")
    await subject.add("first", priority=1)
    await subject.add("later", delay_seconds=60)
    await subject.engine.complete(await subject.claim(), "null", mark=None, keep=KEEP, claim_next=None)
    await subject.engine.fail(await subject.claim(), "no", stack="", mark=None, keep=KEEP, claim_next=None)
    await subject.claim()
    asked = [JobId(name) for name in ("won", "lost", "runs", "waits", "first", "later", "unknown")]
    assert await subject.engine.listed(QUEUE, asked) == {"runs", "waits", "first", "later"}
    assert await subject.engine.listed(QUEUE, []) == set()


async def test_finished_jobs_tell_how_they_ended(subject: Subject) -> None:
    """Result, reason, stack and attempts of the last run; nothing for an id without a job."""
    await subject.add("a", "b")
    await subject.engine.complete(await subject.claim(), '{"x":1}', mark=None, keep=KEEP, claim_next=None)
    await subject.engine.fail(await subject.claim(), "no", stack="at b", mark=None, keep=KEEP, claim_next=None)
    ends = await subject.engine.ends(QUEUE, [JobId("a"), JobId("b"), JobId("unknown")])
    assert ends == [
        JobEnd(result='{"x":1}', attempts_made=1),
        JobEnd(reason="no", stack="at b", attempts_made=1),
        JobEnd(),
    ]


async def test_a_long_list_is_read_in_pages(redis_url: str, redis_prefix: str) -> None:
    """Membership is found on every page of a list, its last entry and an entry that is missing included."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    ids = [JobId(f"j{number}") for number in range(listing.PAGE_LISTED * 2 + 1)]
    with Redis.from_url(redis_url) as client:
        client.rpush(f"{redis_prefix}:{QUEUE}:wait", *ids)
    asked = [ids[0], ids[listing.PAGE_LISTED], ids[-1], JobId("lost")]
    assert await engine.listed(QUEUE, asked) == set(asked) - {"lost"}
    await engine.close()


async def test_stacks_of_other_programs_are_readable(redis_url: str, redis_prefix: str) -> None:
    """The last of Node's stacks counts; text that is no list is shown as it is, and strange values break nothing."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    stored = {"list": json.dumps(["first", "last"]), "text": "no JSON", "number": "7", "empty": "[]"}
    with Redis.from_url(redis_url) as client:
        for name, stack in stored.items():
            client.hset(f"{redis_prefix}:{QUEUE}:{name}", mapping={"stacktrace": stack, "atm": "many"})
    ends = await engine.ends(QUEUE, [JobId(name) for name in stored])
    assert [(end.stack, end.attempts_made) for end in ends] == [("last", 0), ("no JSON", 0), ("", 0), ("", 0)]
    await engine.close()


async def test_the_official_queue_and_ours_mean_the_same_pause(redis_url: str, redis_prefix: str) -> None:
    """What one side pauses the other sees as paused, and resumes; jobs that an older BullMQ set apart come back."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    official = Queue(QUEUE, {"connection": redis_url, "prefix": redis_prefix})
    await official.pause()
    assert (await engine.observe(QUEUE)).paused
    with Redis.from_url(redis_url) as client:
        client.rpush(f"{redis_prefix}:{QUEUE}:paused", "old")
    await engine.push_settings(QUEUE, RESUMED)
    assert not await official.isPaused()
    assert await engine.listed(QUEUE, [JobId("old")]) == {"old"}
    await engine.add(QUEUE, [job("a")])
    await engine.push_settings(QUEUE, PAUSED)
    assert await official.isPaused()
    await official.close()
    await engine.close()
