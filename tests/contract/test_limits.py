"""What a queue imposes on all its workers: pauses, a rate, a number of jobs at once; the same from every engine."""

import asyncio
import time

import pytest
from bullmq import Queue  # type: ignore[import-untyped]  # it ships no types
from redis import Redis

from homing.queue.job import ClaimedJob
from homing.queue.port import Held, Idle, Limit, QueueSettings
from homing.queue.redis import RedisEngine
from tests.contract.conftest import KEEP, QUEUE, Subject, ask
from tests.waiting import until

LONG = Limit(jobs=2, seconds=600.0)


async def blocked(subject: Subject, limit: Limit | None = None) -> float:
    """Seconds until a claim may have something, for a queue that lets nothing start."""
    found = await subject.engine.claim(QUEUE, ask(limit=limit))
    assert isinstance(found, Idle), found
    assert found.limited
    assert found.retry_seconds is not None
    return found.retry_seconds


async def is_full(subject: Subject) -> bool:
    """Whether a queue with waiting jobs lets none start because enough of them run."""
    return await subject.engine.claim(QUEUE, ask()) == Idle()


@pytest.mark.parametrize("limit", [None, LONG], ids=["without limit", "with limit"])
async def test_a_pause_holds_every_claim_until_it_ends(subject: Subject, limit: Limit | None) -> None:
    """Nothing starts before the time, whoever claims and whether the claim names the limit; then jobs start again."""
    await subject.add("a", "b")
    started = time.monotonic()
    await subject.engine.throttle(QUEUE, 0.2, limit)

    async def claimed() -> bool:
        return isinstance(await subject.engine.claim(QUEUE, ask(limit=limit)), ClaimedJob)

    await until(claimed)
    assert time.monotonic() - started >= 0.19
    assert isinstance(await subject.engine.claim(QUEUE, ask(limit=limit)), ClaimedJob)


@pytest.mark.parametrize("limit", [None, LONG], ids=["without limit", "with limit"])
async def test_a_claim_of_a_paused_queue_is_told_the_time(subject: Subject, limit: Limit | None) -> None:
    """Whoever claims, and whether the claim names the limit, hears when the pause ends."""
    await subject.add("a", "b")
    await subject.engine.throttle(QUEUE, 60, limit)
    assert 30 < await blocked(subject, limit) <= 60
    assert 30 < await blocked(subject) <= 60


async def test_a_shorter_pause_never_shortens_a_longer_one(subject: Subject) -> None:
    """Of two pauses the later end counts, in whichever order they are asked for."""
    await subject.add("a")
    await subject.engine.throttle(QUEUE, 60.0, None)
    await subject.engine.throttle(QUEUE, 0.01, None)
    assert await blocked(subject) > 55
    await subject.engine.throttle(QUEUE, 120.0, None)
    assert await blocked(subject) > 115


async def test_a_pause_opens_no_window_that_is_used_up(subject: Subject) -> None:
    """A pause that ends before the window gives no permits back."""
    await subject.add("a", "b", "c")
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=LONG))
    await subject.claim(limit=LONG)
    await subject.claim(limit=LONG)
    await subject.engine.throttle(QUEUE, 0.01, LONG)
    assert await blocked(subject, LONG) > 590


async def test_a_pause_inside_a_window_lasts_as_long_as_asked(subject: Subject) -> None:
    """With permits left, the other side's quota decides, not the end of our window."""
    await subject.add("a", "b")
    await subject.claim(limit=LONG)
    await subject.engine.throttle(QUEUE, 30.0, LONG)
    assert 10 < await blocked(subject, LONG) <= 30


async def test_a_pause_of_one_queue_leaves_the_others_alone(subject: Subject) -> None:
    """Only the queue that was named waits."""
    await subject.add("a")
    await subject.add("b", queue="other")
    await subject.engine.throttle(QUEUE, 60.0, None)
    assert (await subject.claim(queue="other")).lease.job_id == "b"
    assert await blocked(subject) > 55


async def test_a_finish_claims_nothing_from_a_paused_queue(subject: Subject) -> None:
    """The next job that a finish asks for waits too, and the finish itself takes effect."""
    await subject.add("a", "b")
    claimed = await subject.claim()
    await subject.engine.throttle(QUEUE, 60.0, None)
    finished = await subject.engine.complete(claimed, "1", mark=None, keep=KEEP, claim_next=ask())
    assert finished.held is Held.HELD
    assert isinstance(finished.next, Idle)
    assert finished.next.limited


async def test_a_job_given_back_to_a_paused_queue_comes_first_with_its_attempt(subject: Subject) -> None:
    """What was throttled is claimed next once the pause is over, and no attempt was spent."""
    await subject.add("a", "b")
    throttled = await subject.claim()
    await subject.engine.throttle(QUEUE, 0.3, None)
    assert await subject.engine.release(throttled) is Held.HELD

    async def claim() -> ClaimedJob | None:
        found = await subject.engine.claim(QUEUE, ask())
        return found if isinstance(found, ClaimedJob) else None

    again = await until(claim)
    assert again is not None
    assert (again.lease.job_id, again.attempt) == ("a", 1)


async def test_a_queue_runs_no_more_at_once_than_its_concurrency(subject: Subject) -> None:
    """The bound holds over all claims and finishes, and goes when it is removed."""
    await subject.add(*"abcdef")
    for _ in range(2):  # pushing again changes nothing
        await subject.engine.push_settings(QUEUE, QueueSettings(concurrency=2))
    first, second = await subject.claim(), await subject.claim()
    assert await is_full(subject)
    finished = await subject.engine.complete(first, "1", mark=None, keep=KEEP, claim_next=ask())
    assert isinstance(finished.next, ClaimedJob)
    assert await is_full(subject)
    await subject.engine.release(second)
    await subject.claim()
    assert await is_full(subject)
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=None))
    assert await is_full(subject)
    await subject.engine.push_settings(QUEUE, QueueSettings(concurrency=None))
    await subject.claim()


@pytest.mark.parametrize("how", ["complete", "fail", "retry", "retry now"])
async def test_a_finish_that_wants_nothing_more_wakes_who_waits_for_its_slot(subject: Subject, how: str) -> None:
    """On a full queue a worker that stops leaves its slot to another at once."""
    engine = subject.engine
    await engine.push_settings(QUEUE, QueueSettings(concurrency=1))
    await subject.add("a", "b")
    claimed = await subject.claim()
    while await engine.wait([QUEUE], 0.01) is not None:
        assert await is_full(subject)
    waiting = asyncio.create_task(engine.wait([QUEUE], 600.0))
    match how:
        case "complete":
            await engine.complete(claimed, "1", mark=None, keep=KEEP, claim_next=None)
        case "fail":
            await engine.fail(claimed, "no", stack="", mark=None, keep=KEEP, claim_next=None)
        case _:
            delay_seconds = 60.0 if how == "retry" else 0.0
            await engine.retry(claimed, delay_seconds, spend_attempt=True, reason="", stack="", claim_next=None)
    assert await waiting == QUEUE
    await subject.claim()


async def test_the_limit_of_a_queue_binds_claims_that_name_none(subject: Subject) -> None:
    """A limit in the queue's settings holds for every worker, and goes when it is removed."""
    await subject.add("a", "b", "c")
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=LONG))
    await subject.claim()
    await subject.claim()
    assert await blocked(subject) > 590
    await subject.engine.push_settings(QUEUE, QueueSettings(concurrency=9))
    assert await blocked(subject) > 590
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=None))
    await subject.claim()


async def test_the_number_is_the_queues_and_the_time_the_claims(subject: Subject) -> None:
    """Where queue and claim both name a limit, each of them decides one half, as BullMQ has it."""
    await subject.add("a", "b", "c", "d")
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=Limit(2, 600.0)))
    asked = Limit(3, 60.0)
    await subject.claim(limit=asked)
    await subject.claim(limit=asked)
    assert 55 < await blocked(subject, asked) <= 60


async def test_removing_a_limit_that_nobody_declared_ends_no_pause(subject: Subject) -> None:
    """A process that starts and knows of no limit leaves a pause of the queue in force."""
    await subject.add("a")
    await subject.engine.throttle(QUEUE, 60.0, None)
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=None))
    assert await blocked(subject) > 55


async def test_a_pause_after_a_flush_keeps_the_limit(subject: Subject) -> None:
    """Where the settings are gone, a pause brings the queue's limit back with it."""
    await subject.engine.push_settings(QUEUE, QueueSettings(limit=LONG))
    subject.flush()
    await subject.add("a", "b", "c")
    await subject.engine.throttle(QUEUE, 0.02, LONG)

    async def claimed() -> bool:
        return isinstance(await subject.engine.claim(QUEUE, ask()), ClaimedJob)

    await until(claimed)
    await subject.claim()
    assert await blocked(subject) > 590


async def test_settings_lie_where_bullmq_reads_them(redis_url: str, redis_prefix: str) -> None:
    """`concurrency`, `max` and `duration` in `meta`, and a limiter key that expires, in BullMQ's units."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    await engine.open()
    await engine.push_settings(QUEUE, QueueSettings(concurrency=3, limit=Limit(4, 1.5)))
    await engine.throttle(QUEUE, 30.0, None)
    with Redis.from_url(redis_url, decode_responses=True) as client:
        base = f"{redis_prefix}:{QUEUE}:"
        assert client.hmget(f"{base}meta", "concurrency", "max", "duration") == ["3", "4", "1500"]
        assert client.get(f"{base}limiter") == "9007199254740991"
        assert 10_000 < client.pttl(f"{base}limiter") <= 30_000
        await engine.push_settings(QUEUE, QueueSettings(concurrency=None, limit=None))
        assert client.hmget(f"{base}meta", "concurrency", "max", "duration") == [None, None, None]
    await engine.close()


async def test_the_official_queue_reads_and_writes_the_same_limits(redis_url: str, redis_prefix: str) -> None:
    """What we push, the official port reads; the pause that it makes holds our claims, and ours shows in it."""
    subject = Subject(RedisEngine(redis_url, prefix=redis_prefix), redis_url)
    queue = Queue(QUEUE, {"connection": redis_url, "prefix": redis_prefix})
    await subject.add("a")
    await subject.engine.push_settings(QUEUE, QueueSettings(concurrency=3, limit=Limit(4, 1.5)))
    assert await queue.getGlobalConcurrency() == 3
    assert await queue.getGlobalRateLimit() == {"max": 4, "duration": 1500}
    await queue.rateLimit(60_000)
    assert await blocked(subject) > 55
    await queue.removeRateLimitKey()
    await subject.engine.throttle(QUEUE, 30.0, None)
    assert 10_000 < await queue.getRateLimitTtl() <= 30_000
    await queue.close()
    await subject.engine.close()
