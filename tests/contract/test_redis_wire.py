"""What lies in Redis: BullMQ's layout, to the letter, and no more calls than needed."""

import asyncio
import json
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest
from redis import Redis

from homing.backoff import Backoff
from homing.embedded import EmbeddedValkey
from homing.ids import JobId
from homing.queue.job import ClaimedJob, JobCounts, KeepRule
from homing.queue.port import Held, Idle
from homing.queue.redis import RedisEngine
from homing.queue.redis.scripts import load_scripts
from tests.contract.conftest import KEEP, QUEUE, Subject, ask, job
from tests.contract.proxy import TcpProxy
from tests.waiting import until

SCRIPTS = load_scripts()


@pytest.fixture
async def redis_subject(redis_url: str, redis_prefix: str) -> AsyncIterator[tuple[Subject, "Raw"]]:
    """The Redis engine under a prefix of the test's own, and a plain client that looks at its keys."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    await engine.open()
    with Redis.from_url(redis_url, decode_responses=True) as client:
        yield Subject(engine, redis_url), Raw(client, f"{redis_prefix}:{QUEUE}:")
    await engine.close()


class Raw:
    """Reads keys of the queue with an ordinary client."""

    def __init__(self, client: Redis, base: str) -> None:
        self.client = client
        self.base = base

    def hash(self, name: str) -> dict[str, str]:
        return {str(field): str(value) for field, value in self.client.hgetall(self.base + name).items()}

    def options(self, job_id: str) -> object:
        return json.loads(self.hash(job_id)["opts"])


async def test_a_waiting_job_looks_like_bullmqs_own(redis_subject: tuple[Subject, Raw]) -> None:
    """The hash and its options carry the names and units that Node reads."""
    subject, raw = redis_subject
    await subject.add(
        "a",
        name="send",
        data='{"to":1}',
        attempts=5,
        backoff=Backoff(kind="exponential", delay_seconds=1.5, jitter=0.5),
        keep_completed=KeepRule(age_seconds=3600, count=100),
        keep_failed=KeepRule(),
    )
    fields = raw.hash("a")
    options = json.loads(fields.pop("opts"))
    assert fields == {
        "name": "send",
        "data": '{"to":1}',
        "timestamp": "1700000000000",
        "delay": "0",
        "priority": "0",
    }
    assert options == {
        "attempts": 5,
        "backoff": {"type": "exponential", "delay": 1500, "jitter": 0.5},
        "removeOnComplete": {"age": 3600, "count": 100},
        "removeOnFail": False,
    }
    assert raw.client.lrange(f"{raw.base}wait", 0, -1) == ["a"]


async def test_delays_and_priorities_are_stored_for_node(redis_subject: tuple[Subject, Raw]) -> None:
    """A delayed job comes due at timestamp plus delay, which is the delay from the add, whatever the timestamp."""
    subject, raw = redis_subject
    await subject.add("a", delay_seconds=60, priority=7, timestamp_ms=1_700_000_000_000)
    fields = raw.hash("a")
    seconds, micros = raw.client.time()
    due_ms = int(fields["timestamp"]) + int(fields["delay"])
    assert due_ms == pytest.approx(seconds * 1000 + micros / 1000 + 60_000, abs=20_000)
    assert raw.client.zscore(f"{raw.base}delayed", "a") == pytest.approx(due_ms * 4096, abs=4096)
    assert fields["priority"] == "7"


async def test_finished_jobs_look_like_bullmqs_own(redis_subject: tuple[Subject, Raw]) -> None:
    """Result, reason, stack and counters are where Bull Board looks, and the mark beside them."""
    subject, raw = redis_subject
    await subject.add("good", "bad", attempts=1)
    good, bad = await subject.claim(), await subject.claim()
    await subject.engine.complete(good, '{"n":1}', mark="done", keep=KEEP, claim_next=None)
    await subject.engine.fail(bad, "no luck", stack="Trace\nback", mark="dead:4", keep=KEEP, claim_next=None)
    completed, failed = raw.hash("good"), raw.hash("bad")
    assert (completed["returnvalue"], completed["homing"], completed["atm"]) == ('{"n":1}', "done", "1")
    assert (failed["failedReason"], failed["homing"]) == ("no luck", "dead:4")
    assert json.loads(failed["stacktrace"]) == ["Trace\nback"]
    assert {"finishedOn", "processedOn", "ats"} <= completed.keys()
    assert raw.client.zscore(f"{raw.base}failed", "bad") == float(failed["finishedOn"])


async def test_a_retry_shows_its_reason_and_stack(redis_subject: tuple[Subject, Raw]) -> None:
    """While a job waits for its next attempt, the last reason is on display."""
    subject, raw = redis_subject
    await subject.add("a", "b", attempts=3)
    for delay, spend in ((60.0, False), (0.0, True)):
        claimed = await subject.claim()
        await subject.engine.retry(claimed, delay, spend_attempt=spend, reason="busy", stack="S", claim_next=None)
        fields = raw.hash(claimed.lease.job_id)
        assert (fields["failedReason"], fields["stacktrace"]) == ("busy", '["S"]')


async def test_the_queue_is_marked_for_homing_and_for_node(redis_subject: tuple[Subject, Raw]) -> None:
    """`meta` carries our mark and the library's version; one that Node wrote stays."""
    subject, raw = redis_subject
    raw.client.hset(f"{raw.base}meta", "version", "bullmq:6.7.0")
    identity = (await subject.engine.observe(QUEUE)).identity
    meta = raw.hash("meta")
    assert identity.endswith(":" + meta["homing"])
    assert meta["version"] == "bullmq:6.7.0"
    await subject.engine.observe("other")
    other = raw.client.hgetall(raw.base.replace(QUEUE, "other") + "meta")
    assert other["version"] == f"bullmq:{SCRIPTS.library_version}"


async def test_two_processes_agree_on_the_mark(redis_subject: tuple[Subject, Raw], redis_url: str) -> None:
    """However many ask at once, there is one identity."""
    subject, raw = redis_subject
    prefix = raw.base.partition(":")[0]
    others = [RedisEngine(redis_url, prefix=prefix) for _ in range(3)]
    identities = await asyncio.gather(*(engine.observe(QUEUE) for engine in (subject.engine, *others)))
    assert len(set(identities)) == 1
    for engine in others:
        await engine.close()


async def test_an_id_without_a_job_is_dropped_on_the_way(redis_subject: tuple[Subject, Raw]) -> None:
    """Lost jobs in the waiting list do not reach a worker and leave nothing behind."""
    subject, raw = redis_subject
    await subject.add("a", "b")
    raw.client.rpush(f"{raw.base}wait", "ghost2", "ghost1")
    first = await subject.claim()
    assert first.lease.job_id == "a"
    raw.client.rpush(f"{raw.base}wait", "ghost3")
    finished = await subject.engine.complete(first, "1", mark=None, keep=KEEP, claim_next=ask())
    assert isinstance(finished.next, ClaimedJob)
    assert finished.next.lease.job_id == "b"
    assert not raw.client.exists(*(f"{raw.base}ghost{n}" for n in (1, 2, 3)))
    assert await subject.engine.counts(QUEUE) == JobCounts(active=1, completed=1)


async def test_a_queue_of_lost_jobs_only_becomes_idle(redis_subject: tuple[Subject, Raw]) -> None:
    """Dropping is bounded per call, and ends."""
    subject, raw = redis_subject
    raw.client.rpush(f"{raw.base}wait", *(f"ghost{n}" for n in range(250)))
    claims = 0

    async def is_idle() -> bool:
        nonlocal claims
        claims += 1
        return await subject.engine.claim(QUEUE, ask()) == Idle()

    await until(is_idle)
    assert claims == 3
    assert await subject.engine.counts(QUEUE) == JobCounts()


async def test_strange_hashes_of_other_producers_are_readable(redis_subject: tuple[Subject, Raw]) -> None:
    """Whatever somebody wrote into a job's hash, the claim returns a job that can be judged."""
    subject, raw = redis_subject
    strange: dict[
        bytes | bytearray | memoryview | str | int | float, bytes | bytearray | memoryview | str | int | float
    ] = {
        "name": b"\xff",
        "data": b"\xfe{",
        "opts": "[1",
        "timestamp": "soon",
        "atm": "nan",
    }
    raw.client.hset(f"{raw.base}s", mapping=strange)
    raw.client.hset(f"{raw.base}t", mapping={"name": "t", "opts": '{"attempts":null}', "timestamp": "1700000000000.5"})
    raw.client.lpush(f"{raw.base}wait", "s", "t")
    first, second = await subject.claim(), await subject.claim()
    assert (first.attempts, first.timestamp_ms, first.attempts_made) == (1, 0, 0)
    assert (second.attempts, second.timestamp_ms, second.data) == (1, 1_700_000_000_000, "null")


async def test_a_deferred_failure_is_passed_on_and_can_be_overruled(redis_subject: tuple[Subject, Raw]) -> None:
    """BullMQ's own verdict comes with the claim; completing the job is still possible."""
    subject, raw = redis_subject
    await subject.add("a")
    raw.client.hset(f"{raw.base}a", mapping={"defa": "stalled too often", "stc": 2})
    claimed = await subject.claim()
    assert (claimed.deferred_failure, claimed.stalls) == ("stalled too often", 2)
    assert (await subject.engine.complete(claimed, "1", mark=None, keep=KEEP, claim_next=None)).held is Held.HELD


async def test_a_ghost_is_told_from_a_job_and_removed(redis_subject: tuple[Subject, Raw]) -> None:
    """A look sees that something exists without a name; removing it makes room for an add."""
    subject, raw = redis_subject
    raw.client.hset(f"{raw.base}g", mapping={"processedOn": 1, "ats": 1})
    (trace,) = await subject.engine.inspect(QUEUE, [JobId("g")])
    assert (trace.exists, trace.name, trace.finished) == (True, None, False)
    assert await subject.engine.remove(QUEUE, JobId("g"))
    await subject.add("g")
    assert (await subject.claim()).lease.job_id == "g"


async def test_a_worker_that_stops_asking_gives_its_wake_up_back(
    redis_subject: tuple[Subject, Raw], redis_url: str
) -> None:
    """A marker popped for a job that is not due yet wakes another worker when this one turns to other queues."""
    subject, raw = redis_subject
    other = RedisEngine(redis_url, prefix=raw.base.partition(":")[0])
    await subject.add("a", delay_seconds=0.3)
    assert await subject.engine.wait([QUEUE], 0.05) is None
    assert not raw.client.exists(f"{raw.base}marker")
    assert await subject.engine.wait(["elsewhere"], 0.01) is None
    assert await other.wait([QUEUE], 5.0) == QUEUE
    assert isinstance(await other.claim(QUEUE, ask()), ClaimedJob)
    await other.close()


async def test_closing_gives_wake_ups_back(redis_subject: tuple[Subject, Raw], redis_url: str) -> None:
    """So does a worker that ends."""
    subject, raw = redis_subject
    leaving = RedisEngine(redis_url, prefix=raw.base.partition(":")[0])
    await subject.add("a", delay_seconds=60)
    assert await leaving.wait([QUEUE], 0.05) is None
    await leaving.close()
    assert raw.client.zrange(f"{raw.base}marker", 0, -1) == ["1"]


async def test_pausing_and_node_limits_are_respected(redis_subject: tuple[Subject, Raw]) -> None:
    """What other tools write into `meta` holds for our claims too."""
    subject, raw = redis_subject
    await subject.add("a", "b")
    raw.client.hset(f"{raw.base}meta", "paused", 1)
    assert await subject.engine.claim(QUEUE, ask()) == Idle()
    raw.client.hdel(f"{raw.base}meta", "paused")
    raw.client.hset(f"{raw.base}meta", mapping={"max": 1, "duration": 60_000})
    await subject.claim()
    idle = await subject.engine.claim(QUEUE, ask())
    assert isinstance(idle, Idle)
    assert idle.retry_seconds == pytest.approx(60, abs=20)


async def test_server_time_is_what_scripts_are_given(redis_subject: tuple[Subject, Raw]) -> None:
    """The offset of the server's clock is known; on one machine it is as good as none."""
    subject, raw = redis_subject
    assert abs(await subject.engine.clock_offset_seconds()) < 20
    await subject.add("a")
    await subject.claim()
    seconds, micros = raw.client.time()
    assert int(raw.hash("a")["processedOn"]) == pytest.approx(seconds * 1000 + micros / 1000, abs=20_000)


async def test_one_call_per_job_under_backlog(valkey_server: EmbeddedValkey, redis_prefix: str) -> None:
    """Claiming the first of fifty and finishing each with the next costs 51 script calls and nothing else."""
    async with TcpProxy(valkey_server.port) as proxy:
        engine = RedisEngine(
            valkey_server.url().replace(f":{valkey_server.port}/", f":{proxy.port}/"), prefix=redis_prefix
        )
        await engine.add(QUEUE, [job(f"j{n}") for n in range(50)])
        warm = await engine.claim(QUEUE, ask())
        assert isinstance(warm, ClaimedJob)
        await engine.complete(warm, "1", mark=None, keep=KEEP, claim_next=None)
        proxy.commands.clear()
        found: object = await engine.claim(QUEUE, ask())
        finished = 0
        while isinstance(found, ClaimedJob):
            found = (await engine.complete(found, "1", mark=None, keep=KEEP, claim_next=ask())).next
            finished += 1
        assert finished == 49
        assert [command[0] for command in proxy.commands] == [b"EVALSHA"] * 50
        await engine.close()


async def test_a_thousand_adds_leave_in_one_write(
    redis_subject: tuple[Subject, Raw], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls of one turn of the loop are one write, and each is answered."""
    subject, _ = redis_subject
    await subject.add("warm")  # the connection is up and the script is known
    assert isinstance(subject.engine, RedisEngine)
    link = subject.engine._main._link
    assert link is not None
    transport = Mock(wraps=link._transport)
    monkeypatch.setattr(link, "_transport", transport)
    await subject.add(*(f"j{n}" for n in range(1000)))
    assert transport.write.call_count == 1
    assert (await subject.engine.counts(QUEUE)).waiting == 1001


async def test_huge_adds_are_cut_into_pages(redis_subject: tuple[Subject, Raw]) -> None:
    """More jobs than a page, and more data than a page, arrive whole and in order."""
    subject, _ = redis_subject
    await subject.add(*(f"j{n}" for n in range(1500)))
    assert (await subject.engine.counts(QUEUE)).waiting == 1500
    await subject.add(*(f"big{n}" for n in range(5)), data="x" * 3_000_000, queue="big")
    assert [(await subject.claim(queue="big")).lease.job_id for _ in range(5)] == [f"big{n}" for n in range(5)]


async def test_looks_of_many_ids_keep_their_order(redis_subject: tuple[Subject, Raw]) -> None:
    """Answers line up with the ids over pages."""
    subject, _ = redis_subject
    await subject.add(*(f"j{n}" for n in range(0, 2500, 2)))
    traces = await subject.engine.inspect(QUEUE, [JobId(f"j{n}") for n in range(2500)])
    assert [trace.exists for trace in traces] == [n % 2 == 0 for n in range(2500)]
