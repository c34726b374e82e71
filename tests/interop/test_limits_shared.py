"""One limit for both: what Node's workers and ours start on a queue is counted together, and a pause by either stops the other."""

import asyncio
from uuid import uuid4

import pytest

from homing import Event, Homing, RateLimit
from homing.config.settings import Settings
from homing.durations import hours
from homing.ids import JobId, new_token
from homing.queue.job import ClaimedJob, NewJob
from homing.queue.port import ClaimRequest, Idle, Limit, QueueSettings
from homing.queue.redis import RedisEngine
from tests.interop.node import Made, Node
from tests.interop.theirs import CLAIM
from tests.system import quick, running
from tests.waiting import until

HOUR_SECONDS = 3600.0
HOUR_MS = 3_600_000


class Asked(Event, topic="interop.limited", unrouted=True):
    """One more start."""


async def test_workers_of_both_keep_to_one_limit(node: Node, settings: Settings) -> None:
    """Two starts an hour: one runs here and one in Node, and when both have ended nobody has started the third."""
    app = Homing("shop")
    let_go = asyncio.Event()

    @app.queue("print", concurrency=1, limit=RateLimit(2, per=hours(1))).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        del event
        await let_go.wait()

    async with running(app, quick(settings), relay=False) as system:
        queue = await node.queue("print")

        async def both_run() -> bool:
            return (await system.engine.counts("print")).active == 2

        worker = await node.worker("print", "() => gate('both')")
        await queue.call("addBulk", [{"name": "do", "data": {"eventId": str(uuid4()), "payload": {}}}] * 3)
        await until(both_run, 30, "both run")
        let_go.set()
        await node.open("both")

        async def both_ended() -> bool:
            return (await system.engine.counts("print")).completed == 2

        await until(both_ended, 30, "both have ended")
        counts = await system.engine.counts("print")
    assert (counts.waiting, counts.active, len(worker.told("completed"))) == (1, 0, 1)


@pytest.mark.parametrize("limiter", ["the queue's", "each worker's own"])
async def test_claims_of_both_count(node: Node, engine: RedisEngine, limiter: str) -> None:
    """Whichever of BullMQ's two places says it: of two permits one goes to Node and one comes to us, and both are told to wait."""
    of_queue = limiter == "the queue's"
    await engine.add("print", [job(number) for number in range(3)])
    if of_queue:
        await engine.push_settings("print", QueueSettings(limit=Limit(2, HOUR_SECONDS)))
    own = {} if of_queue else {"limiter": {"max": 2, "duration": HOUR_MS}}
    worker = await node.worker("print", None, **own)
    limit = None if of_queue else Limit(2, HOUR_SECONDS)
    assert isinstance(await engine.claim("print", ask(limit)), ClaimedJob)
    assert await claimed(node, worker)
    idle = await engine.claim("print", ask(limit))
    assert isinstance(idle, Idle)
    assert idle.limited
    assert not await claimed(node, worker)


async def test_a_pause_by_either_stops_both(node: Node, engine: RedisEngine) -> None:
    """Node's `rateLimit` is obeyed here; our throttle is obeyed by a Node worker, also on a queue that had no limit before."""
    await engine.add("print", [job(1)])
    await engine.throttle("print", HOUR_SECONDS, None)
    worker = await node.worker("print", None)
    assert not await claimed(node, worker)
    queue = await node.queue("print")
    await queue.call("removeRateLimitKey")
    await queue.call("rateLimit", HOUR_MS)
    idle = await engine.claim("print", ask(None))
    assert isinstance(idle, Idle)
    assert idle.limited
    await queue.call("removeRateLimitKey")
    await queue.call("pause")
    assert (await engine.observe("print")).paused
    assert await engine.claim("print", ask(None)) == Idle()
    await queue.call("resume")
    assert isinstance(await engine.claim("print", ask(None)), ClaimedJob)


async def test_a_bound_of_running_jobs_is_one_for_both(node: Node, engine: RedisEngine) -> None:
    """With one job at a time over all workers, a job that runs here keeps Node from starting, and the reverse."""
    await engine.add("print", [job(1), job(2)])
    queue = await node.queue("print")
    await queue.call("setGlobalConcurrency", 1)
    worker = await node.worker("print", None)
    first = await engine.claim("print", ask(None))
    assert isinstance(first, ClaimedJob)
    assert not await claimed(node, worker)
    await engine.release(first)
    assert await claimed(node, worker)
    assert await engine.claim("print", ask(None)) == Idle()


async def claimed(node: Node, worker: Made) -> bool:
    """Whether a worker of Node's gets a job now."""
    return await node.run(CLAIM, worker, new_token()) is not None


def ask(limit: Limit | None) -> ClaimRequest:
    """A claim of ours."""
    return ClaimRequest(new_token(), 30.0, limit)


def job(number: int) -> NewJob:
    """A job with nothing special about it."""
    return NewJob(id=JobId(f"job-{number}"), name="do", data="{}", timestamp_ms=1_767_225_600_000)
