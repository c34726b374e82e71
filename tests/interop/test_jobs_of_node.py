"""Node produces, we run: whatever BullMQ can ask for with a job is honoured here, and Node sees what became of it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from homing import Event, Homing, Job, PermanentError, Retry, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.ids import JobId
from homing.queue.redis import RedisEngine
from tests.interop.node import Made, Node
from tests.system import quick, running
from tests.waiting import until

HOUR_MS = 3_600_000
STATE = "async (queue, id) => { const job = await bullmq.Job.fromId(queue, id); return [await job.getState(), job.attemptsMade, job.returnvalue, job.failedReason]; }"
JITTERED = Retry(attempts=3, backoff=backoff.exponential(milliseconds(20), jitter=0.5))


class Sent(Event, topic="interop.sent", unrouted=True):
    """What a Node service asks for."""

    to: str = "nobody"


def app_of(seen: list[tuple[str, int]]) -> Homing:
    """Three handlers on a queue that runs one job at a time: one works, one fails twice, one refuses."""
    app = Homing("shop")
    mail = app.queue("mail", concurrency=1)

    @mail.handler("greet", on=Sent, at_least_once=True, retry=JITTERED)
    async def greet(event: Sent, job: Job) -> dict[str, str]:
        seen.append((job.id, job.attempt))
        return {"to": event.to}

    @mail.handler("flaky", on=Sent, at_least_once=True, retry=JITTERED)
    async def flaky(event: Sent, job: Job) -> int:
        del event
        seen.append((job.id, job.attempt))
        if job.attempt < 3:
            raise ConnectionError("not yet")
        return job.attempt

    @mail.handler("refuse", on=Sent, at_least_once=True, retry=JITTERED)
    async def refuse(event: Sent, job: Job) -> None:
        seen.append((job.id, job.attempt))
        raise PermanentError(f"never to {event.to}")

    return app


def envelope(to: str = "π") -> dict[str, Any]:
    """A job's data as every producer sends it."""
    return {"eventId": str(uuid4()), "traceId": "t1", "payload": {"to": to}}


async def ended(node: Node, queue: Made, *ids: str) -> dict[str, list[Any]]:
    """State, attempts, result and reason of each job as Node reads them, once all have ended."""

    async def all_ended() -> bool:
        counts = await queue.call("getJobCounts", "completed", "failed")
        return bool(sum(counts.values()) >= len(ids))

    await until(all_ended, 30, "all jobs have ended")
    return {job_id: await node.run(STATE, queue, job_id) for job_id in ids}


async def test_every_kind_of_job_of_node_runs_here(node: Node, settings: Settings) -> None:
    """Plain, in bulk, delayed, with priorities, last in first out: each in its turn, and Node reads the results."""
    seen: list[tuple[str, int]] = []
    async with running(app_of(seen), quick(settings), relay=False):
        queue = await node.queue("mail")
        await queue.call("pause")
        asked: dict[str, dict[str, Any]] = {
            "plain": {},
            "second": {"removeOnComplete": {"age": 3600}, "attempts": 5},
            "low": {"priority": 9},
            "high": {"priority": 1},
            "late": {"delay": 100},
            "first": {"lifo": True},
        }
        bulk = [
            {"name": "greet", "data": envelope(), "opts": {"jobId": job_id, **options}}
            for job_id, options in asked.items()
        ]
        await queue.call("addBulk", bulk)
        counted = await queue.call("add", "greet", envelope("ünï"), {})
        await queue.call("resume")
        ids = [*asked, counted.fields["id"]]
        found = await ended(node, queue, *ids)
    assert found == {
        **{job_id: ["completed", 1, {"to": "π"}, None] for job_id in ids[:-1]},
        ids[-1]: ["completed", 1, {"to": "ünï"}, None],
    }
    in_turn = [job_id for job_id, _ in seen if job_id != "late"]
    assert in_turn == ["first", "plain", "second", ids[-1], "high", "low"]


async def test_failures_of_nodes_jobs_are_told_to_node(node: Node, settings: Settings) -> None:
    """A job is tried again by its handler's policy, with jitter; one that is refused fails at once, with the reason, and is buried."""
    seen: list[tuple[str, int]] = []
    async with running(app_of(seen), quick(settings), relay=False) as system:
        queue = await node.queue("mail")
        await queue.call(
            "add", "flaky", envelope(), {"jobId": "f", "attempts": 1, "backoff": {"type": "fixed", "delay": 1}}
        )
        await queue.call("add", "refuse", envelope(), {"jobId": "r", "attempts": 9})
        found = await ended(node, queue, "f", "r")
        letters = await system.letters()
    assert found["f"] == ["completed", 3, 3, "ConnectionError: not yet"]
    assert found["r"] == ["failed", 1, None, "PermanentError: never to π"]
    assert [seen.count(("f", attempt)) for attempt in (1, 2, 3)] == [1, 1, 1]
    assert [(letter["job_id"], letter["kind"]) for letter in letters] == [("r", "failed")]


async def test_a_rescheduled_job_of_node_is_late_here(node: Node, engine: RedisEngine) -> None:
    """A newer option of BullMQ's, of which our scripts know nothing: the job that stands comes due when Node said last."""
    queue = await node.queue("mail")
    for hours in (1, 3):
        options = {
            "jobId": f"after-{hours}",
            "delay": hours * HOUR_MS,
            "deduplication": {"id": "one", "reschedule": True},
        }
        job = await queue.call("add", "greet", envelope(), options)
        assert job.fields["id"] == "after-1"
    shown = await engine.show("mail", JobId("after-1"))
    assert shown is not None
    assert shown.due_at is not None
    assert shown.due_at - datetime.now(UTC) > timedelta(hours=2)
