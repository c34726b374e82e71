"""Families in memory are a model of those on Redis: the same calls lead to the same families, whatever their order."""

import asyncio
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.ids import JobId, LeaseToken
from homing.queue.browse import SteeredEngine
from homing.queue.flows import FlowJob, failed_child
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.memory import MemoryEngine
from homing.queue.parent import JobRef, OnFailure, Parent
from homing.queue.port import ClaimRequest, Finished, Idle, Refused
from homing.queue.redis import RedisEngine
from tests.contract.conftest import QUEUE, job

PARENTS = ["p", "q"]
CHILDREN = ["a", "b", "c"]
CALLS = ["flow", "flow", "grow", "add", "claim", "claim", "claim", "complete", "complete", "fail", "wait", "remove"]
SELDOM = ["rerun", "review", "release", "retry"]
LATER_SECONDS = 600.0
"""After this test, whatever comes back then: what comes back soon would do so between other calls on either engine."""

POLICIES: list[OnFailure] = ["fail", "continue", "ignore", "remove"]


@dataclass(frozen=True)
class Step:
    """One call. `which` picks among the jobs claimed so far, `one` among all ids."""

    call: str
    which: int
    one: str
    parent: str
    children: tuple[str, ...]
    policies: tuple[OnFailure, ...]
    keeps: bool


STEPS = st.lists(
    st.builds(
        Step,
        call=st.sampled_from(CALLS + SELDOM),
        which=st.integers(0, 4),
        one=st.sampled_from(PARENTS + CHILDREN),
        parent=st.sampled_from(PARENTS),
        children=st.lists(st.sampled_from(CHILDREN), min_size=1, unique=True).map(tuple),
        policies=st.tuples(*[st.sampled_from(POLICIES)] * 3),
        keeps=st.booleans(),
    ),
    max_size=25,
)


class Player:
    """Plays steps on one engine and writes down what every call answered, and what the families were then."""

    def __init__(self, engine: SteeredEngine) -> None:
        self._engine = engine
        self._claimed: list[ClaimedJob] = []

    async def play(self, steps: list[Step]) -> list[object]:
        return [answer for step in steps for answer in (step, await self._answer(step), await self._look())]

    async def _answer(self, step: Step) -> object:
        match step.call:
            case "flow" | "grow":
                return await self._add(step)
            case "add":
                return await self._engine.add(QUEUE, [job(step.one)])
            case "claim":
                return self._note(await self._engine.claim(QUEUE, self._ask()))
            case "complete" | "fail" | "wait" | "retry" if self._claimed:
                return await self._about(self._claimed[step.which % len(self._claimed)], step)
        return await self._steer(step)

    async def _steer(self, step: Step) -> object:
        """What people and the relay ask; nothing where no job has been claimed that a call could be about."""
        match step.call:
            case "remove":
                return await self._engine.remove(QUEUE, JobId(step.one))
            case "rerun":
                return await self._engine.rerun(QUEUE, JobId(step.one))
            case "review":
                return sorted((await self._engine.review_parents(QUEUE)).released)
            case "release":
                return await self._engine.release_parent(QUEUE, JobId(step.parent), as_bereft=step.keeps)
        return None

    async def _add(self, step: Step) -> list[bool]:
        """A whole flow, or children of a job that may be there: whether each was taken."""
        parent = JobRef(QUEUE, JobId(step.parent))
        jobs = [
            FlowJob(queue=QUEUE, job=job(name, parent=Parent(parent, policy)))
            for name, policy in zip(step.children, step.policies, strict=False)
        ]
        if step.call == "flow":
            jobs.insert(0, FlowJob(queue=QUEUE, job=job(step.parent), waits=True))
        return [not isinstance(answer, Refused) for answer in await self._engine.add_flow(jobs)]

    async def _about(self, claimed: ClaimedJob, step: Step) -> object:
        terms: dict[str, Any] = {"mark": None, "keep": KeepRule() if step.keeps else KeepRule(count=0)}
        match step.call:
            case "complete":
                return await self._end(self._engine.complete(claimed, "1", claim_next=None, **terms))
            case "fail":
                return await self._end(self._engine.fail(claimed, "no", stack="", claim_next=None, **terms))
            case "wait":
                return await self._end(self._engine.wait_for_children(claimed, claim_next=None))
        return await self._end(
            self._engine.retry(claimed, LATER_SECONDS, spend_attempt=True, reason="", stack="", claim_next=None)
        )

    async def _end(self, ending: Any) -> object:
        finished: Finished = await ending
        return finished.held

    async def _look(self) -> object:
        families = [await self._engine.family(QUEUE, JobId(one)) for one in PARENTS]
        seen = [
            (sorted(one.pending, key=str), one.completed, one.forgiven, sorted(one.fatal, key=str), one.count)
            for one in families
        ]
        states = [(job.id, job.state) for job in await self._engine.glance(QUEUE, list(map(JobId, PARENTS + CHILDREN)))]
        return seen, states

    def _ask(self) -> ClaimRequest:
        return ClaimRequest(LeaseToken(f"token-{len(self._claimed)}"), 600.0)

    def _note(self, found: ClaimedJob | Idle) -> object:
        if not isinstance(found, ClaimedJob):
            return "idle"
        self._claimed.append(found)
        return found.lease.job_id, found.starts, failed_child(found.deferred_failure) is None


@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_families_are_alike_on_both_engines(disposable_server: EmbeddedValkey, steps: list[Step]) -> None:
    """Any sequence of calls, of runs and of people, leaves the same families and states on both."""
    with (
        patch("homing.queue.redis.flowing.SOON_SECONDS", LATER_SECONDS),
        patch("homing.queue.memory_kin.SOON_SECONDS", LATER_SECONDS),
        asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner,
    ):
        assert runner.run(_play_on_redis(disposable_server.url(), steps)) == runner.run(
            Player(MemoryEngine()).play(steps)
        )


async def _play_on_redis(url: str, steps: list[Step]) -> list[object]:
    with Redis.from_url(url) as client:
        client.flushall()
    engine = RedisEngine(url)
    try:
        return await Player(engine).play(steps)
    finally:
        await engine.close()
