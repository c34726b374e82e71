"""Jobs moved together: on every engine the same as moved one by one, and on Redis equal key for key to what the official scripts leave."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.errors import HomingError
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import Completion, Finished, Held, Idle, Limit, QueueSettings
from homing.queue.redis import RedisEngine
from homing.queue.redis.scripts import own_script
from tests.contract.conftest import KEEP, QUEUE, Subject, ask, job

START_MS = 1_700_000_000_000
LATER_MS = START_MS + 5_000
SPOILED = ["fine", "fine", "fine", "stale", "unlocked", "not active", "gone", "odd"]


@dataclass(frozen=True)
class Scene:
    """A queue before the call. `held`: what has happened to each of the jobs that will be completed, and the mark it gets."""

    held: list[tuple[str, str | None]] = field(default_factory=list)
    keep: KeepRule = KEEP
    running: int = 0
    waiting: int = 0
    prioritized: int = 0
    due: int = 0
    later: int = 0
    paused: bool = False
    concurrency: int | None = None
    limit: Limit | None = None
    declared: bool = False
    worker: str = ""


SCENES = st.builds(
    Scene,
    held=st.lists(st.tuples(st.sampled_from(SPOILED), st.sampled_from(["done", None])), min_size=1, max_size=5).map(
        lambda held: [*held, ("fine", "done")]
    ),  # the last one removes those that are not kept
    keep=st.sampled_from([KEEP, KEEP, KEEP, KeepRule(count=0), KeepRule(count=1), KeepRule(age_seconds=1)]),
    running=st.integers(0, 2),
    waiting=st.integers(0, 7),
    prioritized=st.integers(0, 3),
    due=st.integers(0, 3),
    later=st.integers(0, 1),
    paused=st.booleans(),
    concurrency=st.none() | st.integers(1, 9),
    limit=st.none() | st.builds(Limit, st.integers(1, 9), st.just(10.0)),
    declared=st.booleans(),
    worker=st.sampled_from(["", "w:1"]),
)


class Stage:
    """A scene under a prefix of its own, at a time that does not move."""

    def __init__(self, url: str, prefix: str) -> None:
        self.engine = RedisEngine(url, prefix=prefix)
        self.redis: Any = Redis.from_url(url, decode_responses=True)
        self.base = f"{prefix}:{QUEUE}:"
        self.scene = Scene()
        self.now_ms = START_MS
        self.engine._now_ms = lambda: self.now_ms  # type: ignore[method-assign]  # both stages stand at one time
        self.held: list[ClaimedJob] = []

    async def set_up(self, scene: Scene) -> None:
        engine, self.scene, self.now_ms = self.engine, scene, START_MS
        await engine.add(QUEUE, [job("old")])
        old = await engine.claim(QUEUE, ask())
        assert isinstance(old, ClaimedJob)
        await engine.complete(old, "null", mark=None, keep=KEEP, claim_next=None)
        ids = [f"h{n}" for n in range(len(scene.held))] + [f"r{n}" for n in range(scene.running)]
        await engine.add(QUEUE, [job(each) for each in ids])
        claimed = [await engine.claim(QUEUE, ask(worker=scene.worker)) for _ in ids]
        self.held = [each for each in claimed if isinstance(each, ClaimedJob)][: len(scene.held)]
        await engine.add(QUEUE, [job(f"w{n}", data=f'{{"n":{n}}}', attempts=n + 1) for n in range(scene.waiting)])
        await engine.add(QUEUE, [job(f"p{n}", priority=3 - n) for n in range(scene.prioritized)])
        await engine.add(QUEUE, [job(f"d{n}", delay_seconds=1 + n, priority=n) for n in range(scene.due)])
        await engine.add(QUEUE, [job(f"l{n}", delay_seconds=600) for n in range(scene.later)])
        limit = scene.limit if scene.declared else None
        await engine.push_settings(
            QUEUE, QueueSettings(concurrency=scene.concurrency, limit=limit, paused=scene.paused)
        )
        self.redis.delete(self.base + "marker")
        for each, (state, _) in zip(self.held, scene.held, strict=True):
            self.spoil(each.lease.job_id, state)
        self.now_ms = LATER_MS

    def spoil(self, job_id: str, state: str) -> None:
        key = self.base + job_id
        match state:
            case "stale":
                self.redis.set(f"{key}:lock", "another")
            case "unlocked":
                self.redis.delete(f"{key}:lock")
            case "not active":
                self.redis.lrem(self.base + "active", 0, job_id)
            case "gone":
                self.redis.delete(key)
            case "odd":  # an earlier attempt, and members of an older job
                self.redis.hset(key, mapping={"atm": 3, "stc": 1, "failedReason": "no"})
                self.redis.sadd(self.base + "stalled", job_id)
            case "child":
                whole = self.base.removesuffix(":")
                self.redis.hset(self.base + "mother", mapping={"name": "send", "data": "{}", "timestamp": START_MS})
                self.redis.zadd(self.base + "waiting-children", {"mother": START_MS})
                self.redis.sadd(self.base + "mother:dependencies", key)
                parent = f'{{"id":"mother","queueKey":"{whole}"}}'
                self.redis.hset(key, mapping={"parentKey": self.base + "mother", "parent": parent})
            case "same":
                self.redis.hset(key, "deid", "x")
                self.redis.set(self.base + "de:x", job_id)

    def completions(self) -> list[Completion]:
        return [
            Completion(each, f'"{each.lease.job_id}"', mark, self.scene.keep)
            for each, (_, mark) in zip(self.held, self.scene.held, strict=True)
        ]

    def dump(self) -> dict[str, object]:
        """Every key of the queue. Tokens are nobody's business, and events are in order for each job."""
        found: dict[str, object] = {}
        for key in self.redis.scan_iter(f"{self.base}*"):
            found[key.removeprefix(self.base)] = self.neutral(self.value(key))
        return found

    def neutral(self, value: Any) -> Any:
        """The value without our prefix, so that two stages can be compared."""
        match value:
            case str():
                return value.replace(self.base.removesuffix(":"), "…")
            case dict():
                return {self.neutral(key): self.neutral(each) for key, each in value.items()}
            case list() | tuple() | set():
                return type(value)(map(self.neutral, value))
            case _:
                return value

    def value(self, key: str) -> object:
        match self.redis.type(key):
            case "string" if key.endswith(":lock"):
                return "held", self.redis.pttl(key) > 0
            case "string":
                return self.redis.get(key), self.redis.pttl(key) > 0
            case "hash":
                return self.redis.hgetall(key)
            case "list":
                return self.redis.lrange(key, 0, -1)
            case "set":
                return self.redis.smembers(key)
            case "zset":
                return self.redis.zrange(key, 0, -1, withscores=True)
            case "stream":
                return self.events(key)
            case other:
                raise AssertionError(f"{key} is a {other}")

    def events(self, key: str) -> dict[str, list[dict[str, str]]]:
        told: dict[str, list[dict[str, str]]] = {}
        for _, event in self.redis.xrange(key):
            told.setdefault(event.get("jobId", ""), []).append(event)
        return told

    async def close(self) -> None:
        self.redis.close()
        await self.engine.close()


def told(answers: Sequence[Finished | HomingError]) -> tuple[list[Held], Counter[str], list[Idle]]:
    """What was answered: what became of each, which jobs came next, and why there were no more of them."""
    finished = [answer for answer in answers if isinstance(answer, Finished)]
    assert len(finished) == len(answers), answers
    following = [answer.next for answer in finished if answer.held is Held.HELD]
    jobs = Counter(str(without_token(each)) for each in following if isinstance(each, ClaimedJob))
    return [answer.held for answer in finished], jobs, [each for each in following if isinstance(each, Idle)]


def without_token(claimed: ClaimedJob) -> tuple[object, ...]:
    return (
        claimed.lease.job_id,
        claimed.name,
        claimed.data,
        claimed.attempts,
        claimed.starts,
        claimed.attempts_made,
        claimed.timestamp_ms,
    )


@pytest.fixture
async def stages(disposable_server: EmbeddedValkey) -> AsyncIterator[tuple[Stage, Stage]]:
    """One for the official way and one for ours."""
    one, other = (Stage(disposable_server.url(), prefix) for prefix in ("one", "other"))
    await other.engine.claim_group(
        QUEUE, ask(), 2
    )  # a script that is sent with its text is later than those that are known
    yield one, other
    await one.close()
    await other.close()


async def set_up(stages: tuple[Stage, Stage], scene: Scene) -> tuple[Stage, Stage]:
    one, other = stages
    one.redis.flushall()
    await one.set_up(scene)
    await other.set_up(scene)
    assert one.dump() == other.dump()
    return one, other


def assert_equal(official: Stage, ours: Stage) -> None:
    """All keys are equal, but for the marker, which the official way leaves behind also when nothing is left to claim."""
    expected, found = official.dump(), ours.dump()
    marked, is_marked = expected.pop("marker", None), found.pop("marker", None)
    assert found == expected
    left = any(found.get(part) for part in ("wait", "prioritized", "delayed"))
    assert is_marked == marked or not left


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scene=SCENES)
async def test_a_group_leaves_what_the_official_scripts_leave(stages: tuple[Stage, Stage], scene: Scene) -> None:
    """Completed together or one by one, with leases lost and jobs gone among them: the same answers, keys and events."""
    one, other = await set_up(stages, scene)
    answers: list[Finished | HomingError] = [
        await one.engine.complete(
            each.job,
            each.result,
            mark=each.mark,
            keep=each.keep,
            claim_next=ask(limit=scene.limit, worker=scene.worker),
        )
        for each in one.completions()
    ]
    together = await other.engine.complete_group(
        QUEUE, other.completions(), ask(limit=scene.limit, worker=scene.worker)
    )
    assert told(together)[:2] == told(answers)[:2]
    assert_equal(one, other)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scene=SCENES, most=st.integers(2, 12))
async def test_claims_together_leave_what_single_ones_leave(
    stages: tuple[Stage, Stage], scene: Scene, most: int
) -> None:
    """Waiting, prioritized and delayed jobs, pauses, limits and bounds: the same jobs are leased, and all keys are equal."""
    one, other = await set_up(stages, scene)
    jobs: list[ClaimedJob] = []
    idle: Idle | None = None
    while len(jobs) < most and idle is None:
        claimed = await one.engine.claim(QUEUE, ask(limit=scene.limit, worker=scene.worker))
        if isinstance(claimed, ClaimedJob):
            jobs.append(claimed)
        else:
            idle = claimed
    claims = await other.engine.claim_group(QUEUE, ask(limit=scene.limit, worker=scene.worker), most)
    assert list(map(without_token, claims.jobs)) == list(map(without_token, jobs))
    if idle is not None:
        assert claims.idle is not None
        assert claims.idle.limited == idle.limited
        assert claims.idle.retry_seconds == pytest.approx(idle.retry_seconds, abs=1.0)
    assert_equal(one, other)


async def test_a_family_and_a_de_duplication_are_left_to_the_official_script(stages: tuple[Stage, Stage]) -> None:
    """In one group with an ordinary job: the mother goes on, and the de-duplication ends."""
    scene = Scene(held=[("child", "done"), ("fine", "done"), ("same", "done")])
    one, other = await set_up(stages, scene)
    for each in one.completions():
        await one.engine.complete(each.job, each.result, mark=each.mark, keep=each.keep, claim_next=ask())
    answers = await other.engine.complete_group(QUEUE, other.completions(), ask())
    held, jobs, _ = told(answers)
    assert held == [Held.HELD] * 3
    assert jobs.total() == 1
    assert other.redis.lrange(other.base + "active", 0, -1) == ["mother"]
    assert not other.redis.exists(other.base + "de:x")
    assert_equal(one, other)


async def test_one_bad_key_does_not_spoil_a_group(stages: tuple[Stage, Stage]) -> None:
    """A job whose key is something else fails alone, also among those that are claimed."""
    scene = Scene(held=[("fine", "done")] * 3, waiting=2)
    _, other = await set_up(stages, scene)
    completions = other.completions()
    other.redis.delete(other.base + "h1")
    other.redis.set(other.base + "h1", "text")
    answers = await other.engine.complete_group(QUEUE, completions, ask())
    assert [isinstance(answer, HomingError) for answer in answers] == [False, True, False]
    _, jobs, _ = told([answer for answer in answers if isinstance(answer, Finished)])
    assert jobs.total() == 2
    await other.engine.add(QUEUE, [job("a"), job("b")])
    other.redis.rpush(other.base + "wait", "events", "ghost")
    claims = await other.engine.claim_group(QUEUE, ask(), 5)
    assert [each.lease.job_id for each in claims.jobs] == ["a", "b"]
    assert not other.redis.exists(other.base + "ghost")


async def test_each_lease_of_a_group_has_a_token_of_its_own(subject: Subject) -> None:
    """On every engine: what was claimed together is completed apart, each by its own token only."""
    await subject.add("a", "b", "c")
    claims = await subject.engine.claim_group(QUEUE, ask(), 5)
    assert [each.lease.job_id for each in claims.jobs] == ["a", "b", "c"]
    assert claims.idle is not None
    assert len({each.lease.token for each in claims.jobs}) == 3
    first, second, third = claims.jobs
    mixed = replace(first, lease=replace(first.lease, token=second.lease.token))
    await subject.add("d", "e", "f")
    answers = await subject.engine.complete_group(
        QUEUE, [Completion(mixed, "null", "done", KEEP), Completion(third, "null", "done", KEEP)], ask()
    )
    held, jobs, idle = told(answers)
    assert held == [Held.TAKEN, Held.HELD]
    assert (jobs.total(), idle) == (1, [])


async def test_a_script_that_the_server_lost_is_sent_again(subject: Subject) -> None:
    """A restart forgets scripts; nobody notices."""
    if subject.server_url is None:
        pytest.skip("this engine has no server")
    await subject.add("a", "b")
    with Redis.from_url(subject.server_url) as redis:
        redis.script_flush()
        claims = await subject.engine.claim_group(QUEUE, ask(), 2)
        assert len(claims.jobs) == 2
        assert redis.script_exists(own_script("finishAndClaim-11").sha) == [True]


async def test_fewer_next_jobs_may_be_wanted_than_end(subject: Subject) -> None:
    """Whoever has begun others already takes what there is room for, or nothing: the first answers have the next jobs, the others none."""
    await subject.add("a", "b", "c", "d", "e", "f", "g")
    claims = await subject.engine.claim_group(QUEUE, ask(), 4)
    first = [Completion(each, "null", "done", KEEP) for each in claims.jobs[:3]]
    answers = await subject.engine.complete_group(QUEUE, first, ask(), 1)
    assert [answer.held for answer in answers if isinstance(answer, Finished)] == [Held.HELD] * 3
    following = [answer.next for answer in answers if isinstance(answer, Finished)]
    assert isinstance(following[0], ClaimedJob)
    assert (following[0].lease.job_id, following[1:]) == ("e", [None, None])
    last = [Completion(each, "null", "done", KEEP) for each in (claims.jobs[3], following[0])]
    for request, most in ((None, None), (ask(), 0)):
        (answer,) = await subject.engine.complete_group(QUEUE, [last.pop()], request, most)
        assert answer == Finished(Held.HELD, None)
    counts = await subject.engine.counts(QUEUE)
    assert (counts.completed, counts.active, counts.waiting) == (5, 0, 2)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scene=SCENES, most=st.integers(0, 6))
async def test_no_more_are_leased_than_wanted(stages: tuple[Stage, Stage], scene: Scene, most: int) -> None:
    """Also where some of the group are ended by the official script, one by one; and what ends, ends as if nothing were wanted."""
    one, other = await set_up(stages, scene)
    nothing = await one.engine.complete_group(QUEUE, one.completions(), None)
    some = await other.engine.complete_group(
        QUEUE, other.completions(), ask(limit=scene.limit, worker=scene.worker), most
    )
    assert told(nothing)[0] == told(some)[0]
    assert told(nothing)[1:] == (Counter(), [])
    leased = told(some)[1].total()
    assert leased <= most
    assert len(other.redis.lrange(other.base + "active", 0, -1)) == leased + len(
        one.redis.lrange(one.base + "active", 0, -1)
    )
    assert other.dump()["completed"] == one.dump()["completed"]


async def test_jobs_that_are_not_the_oldest_running_ones_leave_one_by_one(stages: tuple[Stage, Stage]) -> None:
    """Long jobs stay behind while younger ones end: nobody else is taken from the running ones in their place."""
    _, ours = stages
    ours.redis.flushall()
    engine = ours.engine
    await engine.add(QUEUE, [job(name) for name in "abcdefgh"])
    claims = await engine.claim_group(QUEUE, ask(), 8)
    by_id = {str(each.lease.job_id): Completion(each, "null", "done", KEEP) for each in claims.jobs}
    for ending, left in (("fd", "abcegh"), ("ba", "cegh"), ("hgc", "e")):
        answers = await engine.complete_group(QUEUE, [by_id[name] for name in ending], None)
        assert told(answers)[0] == [Held.HELD] * len(ending)
        assert sorted(ours.redis.lrange(ours.base + "active", 0, -1)) == sorted(left)
