"""The engine in memory is a model of the one on Redis: the same calls get the same answers."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.ids import JobId, LeaseToken
from homing.queue.browse import JobState, SteeredEngine
from homing.queue.job import ClaimedJob, Deduplication, KeepRule
from homing.queue.memory import MemoryEngine
from homing.queue.parked import ParkedKind
from homing.queue.port import ClaimRequest, Finished, Idle
from homing.queue.redis import RedisEngine
from tests.contract.conftest import QUEUE, job

AGES_AGO = job("any").timestamp_ms
IDS = ["a", "b", "c", "d", "e"]
CALLS = ["add", "add", "claim", "claim", "complete", "fail", "retry", "park", "unpark", "release", "remove", "extend"]
PEOPLE = ["promote", "rerun", "drain", "lift"]
KINDS = [ParkedKind("new"), ParkedKind("new", version=2), ParkedKind("new", "some.one")]
KEEPS = st.sampled_from([KeepRule(), KeepRule(count=0), KeepRule(count=1), KeepRule(age_seconds=3600)])
SAME = st.builds(
    lambda name, terms: Deduplication(id=name, **terms),
    st.sampled_from(["x", "y"]),
    st.sampled_from(
        [{}, {"replace": True}]
        + [
            {"ttl_seconds": 600.0, "extend": extend, "replace": replace}
            for extend in (False, True)
            for replace in (False, True)
        ]
        + [{"keep_last_if_active": True, "replace": replace} for replace in (False, True)]
    ),
)


@dataclass(frozen=True)
class Step:
    """One call. `which` picks among the jobs claimed so far, finished ones included."""

    call: str
    which: int = 0
    job_id: str = "a"
    priority: int = 0
    delay_seconds: float = 0.0
    keep: KeepRule = KeepRule()  # noqa: RUF009 - frozen
    flag: bool = False
    claims_next: bool = False
    lifo: bool = False
    same: Deduplication | None = None


STEPS = st.lists(
    st.builds(
        Step,
        call=st.sampled_from(CALLS + PEOPLE),
        which=st.integers(0, 5),
        job_id=st.sampled_from(IDS),
        priority=st.sampled_from([0, 0, 1, 2]),
        delay_seconds=st.sampled_from([0.0, 0.0, 600.0]),
        keep=KEEPS,
        flag=st.booleans(),
        claims_next=st.booleans(),
        lifo=st.booleans(),
        same=st.none() | SAME,
    ),
    max_size=30,
)


class Player:
    """Plays steps on one engine and writes down what every call and every look answered."""

    def __init__(self, engine: SteeredEngine) -> None:
        self._engine = engine
        self._claimed: list[ClaimedJob] = []
        self._tokens = 0
        self._parked_is_told = True  # until a job leaves in a way that its note does not hear of before it expires

    async def play(self, steps: list[Step]) -> list[object]:
        answers = [answer for step in steps for answer in (await self._answer(step), *await self._look())]
        return [*answers, await self._browse(), await self._show()]

    async def _answer(self, step: Step) -> object:
        self._parked_is_told &= step.call not in {"remove", *PEOPLE}
        if step.call == "add":
            lifo = step.lifo and not step.priority and not step.delay_seconds
            new = job(
                step.job_id,
                priority=step.priority,
                delay_seconds=step.delay_seconds,
                lifo=lifo,
                deduplication=step.same,
            )
            return await self._engine.add(QUEUE, [new])
        if step.call == "claim":
            return self._note(await self._engine.claim(QUEUE, self._ask()))
        if step.call == "remove":
            return await self._engine.remove(QUEUE, JobId(step.job_id))
        if step.call in PEOPLE:
            return await self._steer(step)
        if step.call == "unpark":
            return await self._engine.unpark(QUEUE, KINDS[: step.which])
        if not self._claimed:
            return None
        return await self._about(self._claimed[step.which % len(self._claimed)], step)

    async def _about(self, claimed: ClaimedJob, step: Step) -> object:
        terms: dict[str, Any] = {"claim_next": self._ask() if step.claims_next else None}
        mark = "done" if step.flag else None
        match step.call:
            case "complete":
                return self._finish(await self._engine.complete(claimed, "1", mark=mark, keep=step.keep, **terms))
            case "fail":
                return self._finish(
                    await self._engine.fail(claimed, "no", stack="", mark=mark, keep=step.keep, **terms)
                )
            case "retry":
                terms |= {"spend_attempt": step.flag, "refund_start": step.priority > 0, "reason": "", "stack": ""}
                return self._finish(await self._engine.retry(claimed, step.delay_seconds, **terms))
            case "park":
                kind = KINDS[step.priority]
                return self._finish(await self._engine.park(claimed, kind, 600.0, "", **terms))
            case "extend":
                extender = self._engine.extender()
                held = await asyncio.to_thread(extender.extend, [claimed.lease], 600.0)
                await asyncio.to_thread(extender.close)
                return held
        return await self._engine.release(claimed)

    async def _look(self) -> tuple[object, object, object]:
        traces = await self._engine.inspect(QUEUE, [JobId(one) for one in IDS])
        counts = await self._engine.counts(QUEUE)
        parked = await self._engine.parked(QUEUE)
        standing = [await self._engine.standing(QUEUE, name) for name in ("x", "y")]
        return counts, traces, (parked if self._parked_is_told else None, standing)

    async def _steer(self, step: Step) -> object:
        if step.call == "drain":
            return await self._engine.drain(QUEUE, delayed=step.flag)
        if step.call == "lift":
            return await self._engine.lift(QUEUE, "x")
        if step.call == "promote":
            return await self._engine.promote(QUEUE, JobId(step.job_id))
        return await self._engine.rerun(QUEUE, JobId(step.job_id))

    async def _browse(self) -> object:
        """The jobs of each state; the order of those that started or ended within a millisecond is nobody's promise."""
        pages = {state: await self._engine.browse(QUEUE, state) for state in JobState}
        ids = {state: [one.id for one in page.jobs] for state, page in pages.items()}
        unordered = [state for state in JobState if state.finished or state is JobState.ACTIVE]
        return ids | {state: sorted(ids[state]) for state in unordered}

    async def _show(self) -> object:
        shown = [await self._engine.show(QUEUE, JobId(one)) for one in IDS]
        return [one and (one.state, one.ahead, one.attempts_made, one.starts, one.mark) for one in shown]

    def _ask(self) -> ClaimRequest:
        self._tokens += 1
        return ClaimRequest(LeaseToken(f"token-{self._tokens}"), 600.0)

    def _note(self, found: ClaimedJob | Idle | None) -> object:
        if isinstance(found, ClaimedJob):
            self._claimed.append(found)
            began_now = found.timestamp_ms > AGES_AGO  # a moment of the clock, which no two plays share
            return replace(found, timestamp_ms=0) if began_now else found
        if isinstance(found, Idle) and found.retry_seconds is not None:
            return replace(found, retry_seconds=float(round(found.retry_seconds, -1)))
        return found

    def _finish(self, finished: Finished) -> object:
        return finished.held, self._note(finished.next)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_both_engines_answer_alike(disposable_server: EmbeddedValkey, steps: list[Step]) -> None:
    """Any sequence of calls gets the same answers, counts and traces from both, one after the other."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
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
