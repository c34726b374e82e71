"""What people see of jobs and do to them: the same from every engine, and nothing of it breaks on what strangers wrote."""

from datetime import UTC, datetime

import pytest
from bullmq import Queue  # type: ignore[import-untyped]  # it ships no types
from redis import Redis

from homing.ids import JobId
from homing.queue.admission import can_be_job
from homing.queue.browse import JobPage, JobState, Obliterated, QueueTerms, SteeredEngine, read_cursor, start_after
from homing.queue.memory import MemoryEngine
from homing.queue.port import Held, Idle, Limit, QueueSettings
from homing.queue.redis import RedisEngine, steering
from tests.contract.conftest import KEEP, QUEUE, Subject, ask, job

PAUSED = QueueSettings(paused=True)


def steered(subject: Subject) -> SteeredEngine:
    assert isinstance(subject.engine, MemoryEngine | RedisEngine)
    return subject.engine


def ids(page: JobPage) -> list[str]:
    return [job.id for job in page.jobs]


async def fail(subject: Subject, reason: str = "no") -> str:
    """Claim the next job and fail it for good, with the mark of a letter."""
    claimed = await subject.claim()
    await subject.engine.fail(claimed, reason, stack="at x", mark="dead:7", keep=KEEP, claim_next=None)
    return claimed.lease.job_id


async def test_every_state_is_listed_in_its_order(subject: Subject) -> None:
    """The next to run come first, finished ones in the order of their ends; the other way round from the other end."""
    await subject.add("won", "lost", "lost too", "runs", "w1", "w2", "w3")
    await subject.add("p2", priority=2)
    await subject.add("p1", priority=1)
    await subject.add("soon", delay_seconds=60)
    await subject.add("later", delay_seconds=600)
    await subject.engine.complete(await subject.claim(), "null", mark=None, keep=KEEP, claim_next=None)
    assert [await fail(subject), await fail(subject)] == ["lost", "lost too"]
    await subject.claim()
    expected = {
        JobState.WAITING: ["w1", "w2", "w3"],
        JobState.PRIORITIZED: ["p1", "p2"],
        JobState.DELAYED: ["soon", "later"],
        JobState.ACTIVE: ["runs"],
        JobState.FAILED: ["lost", "lost too"],
        JobState.COMPLETED: ["won"],
        JobState.WAITING_CHILDREN: [],
    }
    for state, names in expected.items():
        assert ids(await steered(subject).browse(QUEUE, state)) == names
        assert ids(await steered(subject).browse(QUEUE, state, newest_first=True)) == names[::-1]
    (failed, _) = (await steered(subject).browse(QUEUE, JobState.FAILED)).jobs
    assert (failed.name, failed.reason, failed.attempts_made, failed.state) == ("send", "no", 1, JobState.FAILED)
    delayed = (await steered(subject).browse(QUEUE, JobState.DELAYED)).jobs[0]
    assert delayed.due_at is not None
    assert 50 < (delayed.due_at - datetime.now(UTC)).total_seconds() <= 60


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_follow_each_other_while_jobs_leave(subject: Subject, newest_first: bool) -> None:  # noqa: FBT001
    """Every job that stays is on some page, also when the job at which a page ended has been claimed meanwhile."""
    await subject.add(*(f"j{number}" for number in range(7)))
    engine = steered(subject)
    first = await engine.browse(QUEUE, JobState.WAITING, most=3, newest_first=newest_first)
    assert ids(first) == (["j6", "j5", "j4"] if newest_first else ["j0", "j1", "j2"])
    gone = [(await subject.claim()).lease.job_id for _ in range(3)]
    seen, page = ids(first), first
    while page.after is not None:
        page = await engine.browse(QUEUE, JobState.WAITING, after=page.after, most=2, newest_first=newest_first)
        seen += ids(page)
    assert {f"j{number}" for number in range(7)} - set(gone) <= set(seen)
    assert len(seen) == len(set(seen))
    with pytest.raises(ValueError, match="take it from the page before"):
        await engine.browse(QUEUE, JobState.WAITING, after="j3")


async def test_one_job_is_shown_in_full(subject: Subject) -> None:
    """Where it is, who holds it, how many are before it, what happened to it; nothing for an id without a job."""
    await subject.add("a", "b", "c", attempts=5, data='{"x":1}')
    engine = steered(subject)
    assert await engine.show(QUEUE, JobId("unknown")) is None
    waits = await engine.show(QUEUE, JobId("c"))
    assert waits is not None
    assert (waits.state, waits.ahead, waits.lease_seconds, waits.fields["data"]) == (
        JobState.WAITING,
        2,
        None,
        '{"x":1}',
    )
    await subject.claim(lease_seconds=30)
    runs = await engine.show(QUEUE, JobId("a"))
    assert runs is not None
    assert (runs.state, runs.attempts, runs.starts, runs.ahead) == (JobState.ACTIVE, 5, 1, None)
    assert runs.lease_seconds is not None
    assert 20 < runs.lease_seconds <= 30
    await fail(subject, "broken")
    dead = await engine.show(QUEUE, JobId("b"))
    assert dead is not None
    assert (dead.state, dead.reason, dead.mark, dead.stacks, dead.attempts_made) == (
        JobState.FAILED,
        "broken",
        "dead:7",
        ("at x",),
        1,
    )


async def test_what_holds_a_queue_back_is_told(subject: Subject) -> None:
    """Pause, concurrency and limit as they are set, how long a used-up limit lasts; a mere pause for a throttle is no limit."""
    engine = steered(subject)
    assert await engine.terms(QUEUE) == QueueTerms()
    await subject.engine.throttle("other", 60, None)
    throttled = await engine.terms("other")
    assert (throttled.limit, 50 < throttled.throttled_seconds <= 60) == (None, True)
    limit = Limit(1, 60.0)
    await subject.engine.push_settings(QUEUE, QueueSettings(concurrency=3, limit=limit, paused=True))
    assert await engine.terms(QUEUE) == QueueTerms(paused=True, concurrency=3, limit=limit)
    await subject.engine.push_settings(QUEUE, QueueSettings(paused=False))
    await subject.add("a")
    await subject.claim(limit=limit)
    assert 50 < (await engine.terms(QUEUE)).throttled_seconds <= 60


async def test_jobs_are_promoted_and_run_again(subject: Subject) -> None:
    """A delayed job waits now; a failed one waits with all its attempts and its mark; what is elsewhere stays there."""
    await subject.add("bad", attempts=3)
    await fail(subject)
    await subject.add("later", delay_seconds=600)
    engine = steered(subject)
    assert [await engine.promote(QUEUE, JobId(name)) for name in ("later", "later", "bad", "unknown")] == [
        True,
        False,
        False,
        False,
    ]
    assert [await engine.rerun(QUEUE, JobId(name)) for name in ("bad", "bad", "later", "unknown")] == [
        True,
        False,
        False,
        False,
    ]
    assert await subject.engine.wait([QUEUE], 5.0) == QUEUE
    first, second = await subject.claim(), await subject.claim()
    assert [first.lease.job_id, second.lease.job_id] == ["later", "bad"]
    assert (second.attempts_made, second.starts, second.mark) == (0, 1, "dead:7")


async def test_finished_jobs_are_cleaned_by_age_and_number(subject: Subject) -> None:
    """The oldest go first, young ones stay, and what has not finished cannot be cleaned."""
    await subject.add("a", "b", "c")
    for _ in range(3):
        await fail(subject)
    engine = steered(subject)
    assert await engine.clean(QUEUE, JobState.FAILED, 3600, 100) == 0
    assert await engine.clean(QUEUE, JobState.FAILED, 0, 2) == 2
    assert ids(await engine.browse(QUEUE, JobState.FAILED)) == ["c"]
    assert await engine.show(QUEUE, JobId("a")) is None
    with pytest.raises(ValueError, match="waiting jobs have not finished"):
        await engine.clean(QUEUE, JobState.WAITING, 0, 1)


async def test_draining_takes_what_waits_and_leaves_what_runs(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In steps, prioritized jobs too, delayed ones only when asked; a running job goes on and may end."""
    monkeypatch.setattr(steering, "PAGE_JOBS", 2)
    await subject.add("runs", "w1", "w2", "w3", "w4", "w5")
    await subject.add("first", priority=1)
    await subject.add("later", delay_seconds=600)
    running = await subject.claim()
    engine = steered(subject)
    assert await engine.drain(QUEUE, delayed=False) == 6
    counts = await subject.engine.counts(QUEUE)
    assert (counts.waiting, counts.prioritized, counts.delayed, counts.active) == (0, 0, 1, 1)
    assert await engine.drain(QUEUE, delayed=True) == 1
    assert isinstance(await subject.engine.claim(QUEUE, ask()), Idle)
    assert (await subject.engine.complete(running, "null", mark=None, keep=KEEP, claim_next=None)).held is Held.HELD


async def test_obliterating_is_for_paused_queues_and_not_while_jobs_run(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused twice, then everything is gone, its settings and its identity too; a run that was forced out can change nothing."""
    monkeypatch.setattr(steering, "PAGE_JOBS", 2)
    await subject.add("runs", "w1", "w2", "w3", "w4")
    await fail(subject)
    running = await subject.claim()
    engine = steered(subject)
    before = (await engine.observe(QUEUE)).identity
    assert await engine.obliterate(QUEUE, force=True) is Obliterated.NOT_PAUSED
    await engine.push_settings(QUEUE, PAUSED)
    assert await engine.obliterate(QUEUE, force=False) is Obliterated.RUNNING
    assert await engine.obliterate(QUEUE, force=True) is Obliterated.GONE
    after = await engine.observe(QUEUE)
    assert (after.identity != before, after.paused) == (True, False)
    assert sum(vars_of(await engine.counts(QUEUE))) == 0
    finished = await engine.complete(running, "null", mark=None, keep=KEEP, claim_next=None)
    assert finished.held is not Held.HELD


def vars_of(counts: object) -> list[int]:
    return [getattr(counts, name) for name in ("waiting", "active", "delayed", "prioritized", "completed", "failed")]


async def test_what_strangers_wrote_is_shown_and_breaks_nothing(redis_url: str, redis_prefix: str) -> None:
    """A ghost, a job in no list, times and numbers that make no sense, bytes that are no text."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    base = f"{redis_prefix}:{QUEUE}:"
    with Redis.from_url(redis_url) as client:
        client.rpush(base + "wait", "ghost", b"\xff\xfe", "odd")
        client.hset(base + "ghost", "ats", 1)
        strange = {"name": b"\xff\x1b[31m", "timestamp": "1e300", "processedOn": "soon", "atm": "many", "opts": "[[[["}
        client.hset(base + "odd", mapping={**strange, "stacktrace": "{}", "failedReason": "x" * 5000})
        client.hset(base + "adrift", mapping={"name": "lost", "opts": '{"attempts": 1e999}'})
        client.hset(base + "meta", mapping={"concurrency": "all", "max": "few"})
        client.rpush(base + "adrift:logs", *(f"line {number}" for number in range(30)))
    names = [(job.name, job.added_at) for job in (await engine.browse(QUEUE, JobState.WAITING)).jobs]
    assert names == [("\ufffd\x1b[31m", None), (None, None), (None, None)]
    odd = await engine.show(QUEUE, JobId("odd"))
    assert odd is not None
    assert (odd.started_at, odd.attempts_made, odd.attempts, odd.stacks, len(odd.reason)) == (None, 0, 1, (), 1000)
    adrift = await engine.show(QUEUE, JobId("adrift"))
    assert adrift is not None
    assert (adrift.state, adrift.name, adrift.log_lines, adrift.logs[-1]) == (None, "lost", 30, "line 29")
    assert await engine.terms(QUEUE) == QueueTerms()
    await engine.close()


async def test_the_official_queue_sees_the_same(redis_url: str, redis_prefix: str) -> None:
    """After a retry, a promotion and a drain of ours, the official library finds the states that it would have made."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    official = Queue(QUEUE, {"connection": redis_url, "prefix": redis_prefix})
    subject = Subject(engine, redis_url)
    await subject.add("bad")
    await fail(subject)
    await subject.add("later", delay_seconds=600)
    await engine.rerun(QUEUE, JobId("bad"))
    await engine.promote(QUEUE, JobId("later"))
    assert [await official.getJobState(name) for name in ("bad", "later")] == ["waiting", "waiting"]
    assert await engine.drain(QUEUE, delayed=True) == 2
    assert await official.getJobCounts("wait", "delayed", "failed") == {"wait": 0, "delayed": 0, "failed": 0}
    await engine.add(QUEUE, [job("new")])
    assert (await subject.claim()).lease.job_id == "new"
    await official.close()
    await engine.close()


def test_what_is_no_job_is_not_taken_for_one() -> None:
    """The queue's own keys, a job's lock and logs, and bytes that are no text; counted ids and scheduled runs are jobs."""
    assert [can_be_job(name) for name in ("17", "a.b", "\x1b", "repeat:nightly:1700000000000")] == [True] * 4
    no_jobs = ("", "meta", "wait", "a:lock", "repeat:nightly", "repeat:nightly:17:logs", "homing:parked", "\udcff")
    assert [can_be_job(name) for name in no_jobs] == [False] * 8


def test_where_the_next_page_begins() -> None:
    """Behind the last job; where that left, from the front again or at its former place, never behind a job unseen."""
    cursor = read_cursor("4:a:b")
    assert cursor == (4, "a:b")
    assert start_after(None, None, newest_first=False) == 0
    assert start_after(cursor, 2, newest_first=False) == 3
    assert [start_after(cursor, None, newest_first=newest) for newest in (False, True)] == [0, 4]
    for wrong in ("", "4", "4:", ":a", "-1:a", "٣:a", "1" * 20 + ":a"):
        with pytest.raises(ValueError, match="not where a page ended"):
            read_cursor(wrong)


async def test_a_glance_shows_jobs_of_all_states(subject: Subject) -> None:
    """Each as a list has it, in the order of the ids; one that is nowhere has no name."""
    engine = steered(subject)
    await subject.add("run", "waits")
    await subject.add("late", delay_seconds=60)
    await subject.claim()
    jobs = await engine.glance(QUEUE, [JobId(name) for name in ("late", "run", "nowhere", "waits")])
    assert [(job.id, job.state) for job in jobs] == [
        ("late", JobState.DELAYED),
        ("run", JobState.ACTIVE),
        ("nowhere", None),
        ("waits", JobState.WAITING),
    ]
    assert [job.name for job in jobs] == ["send", "send", None, "send"]
