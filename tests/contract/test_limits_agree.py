"""Limits in memory are a model of those in Redis: the same pauses, rates and bounds get the same answers."""

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.memory import MemoryEngine
from homing.queue.port import ClaimRequest, Engine, Finished, Idle, Limit, QueueSettings, Unsaid
from homing.queue.redis import RedisEngine
from tests.contract.conftest import QUEUE, job

KEYS = ["one", "another"]
LIMITS = [Limit(1, 1000.0), Limit(2, 2000.0), Limit(3, 500.0)]


@dataclass(frozen=True)
class Step:
    """One call; times lie so far apart that the run of the test itself changes no answer."""

    call: str
    which: int = 0
    seconds: float = 100.0
    limit: Limit | None = None
    settings: QueueSettings = QueueSettings()  # noqa: RUF009 - frozen
    claims_next: bool = True


STEPS = st.lists(
    st.builds(
        Step,
        call=st.sampled_from(
            ["add", "claim", "claim", "claim", "complete", "release", "throttle", "push", "permit", "permit", "pause"]
        ),
        which=st.integers(0, 4),
        seconds=st.sampled_from([100.0, 700.0, 1500.0, 3000.0]),
        limit=st.sampled_from([None, None, *LIMITS]),
        settings=st.builds(
            QueueSettings,
            concurrency=st.sampled_from([Unsaid.UNSAID, None, 1, 2]),
            limit=st.sampled_from([Unsaid.UNSAID, None, *LIMITS]),
        ),
        claims_next=st.booleans(),
    ),
    max_size=30,
)


class Player:
    """Plays steps on one engine and writes down what every call answered, times rounded."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._claimed: list[ClaimedJob] = []
        self._count = 0

    async def play(self, steps: list[Step]) -> list[object]:
        await self._engine.add(QUEUE, [job(f"early-{number}") for number in range(6)])
        return [await self._answer(step) for step in steps]

    async def _answer(self, step: Step) -> object:
        if step.call in ("permit", "pause"):
            return await self._answer_about_key(step, KEYS[step.which % 2])
        match step.call:
            case "add":
                self._count += 1
                return await self._engine.add(QUEUE, [job(f"job-{self._count}")])
            case "claim":
                return self._note(await self._engine.claim(QUEUE, self._ask(step)))
            case "throttle":
                await self._engine.throttle(QUEUE, step.seconds, step.limit)
                return None
            case "push":
                await self._engine.push_settings(QUEUE, step.settings)
                return None
        if not self._claimed:
            return None
        claimed = self._claimed[step.which % len(self._claimed)]
        if step.call == "release":
            return await self._engine.release(claimed)
        claim_next = self._ask(step) if step.claims_next else None
        return self._finish(
            await self._engine.complete(claimed, "1", mark=None, keep=KeepRule(), claim_next=claim_next)
        )

    async def _answer_about_key(self, step: Step, key: str) -> object:
        if step.call == "permit":
            return round(await self._engine.permit(QUEUE, JobId(f"keyed-{step.which}"), key, step.limit), -2)
        await self._engine.pause_key(QUEUE, key, step.seconds)
        return None

    def _ask(self, step: Step) -> ClaimRequest:
        self._count += 1
        return ClaimRequest(LeaseToken(f"token-{self._count}"), 6000.0, step.limit)

    def _note(self, found: ClaimedJob | Idle | None) -> object:
        if isinstance(found, ClaimedJob):
            self._claimed.append(found)
        elif isinstance(found, Idle) and found.retry_seconds is not None:
            return Idle(float(round(found.retry_seconds, -2)), limited=found.limited)
        return found

    def _finish(self, finished: Finished) -> object:
        return finished.held, self._note(finished.next)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_both_engines_limit_alike(disposable_server: EmbeddedValkey, steps: list[Step]) -> None:
    """Any sequence of claims, finishes, pauses and settings gets the same answers from both, one after the other."""
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
