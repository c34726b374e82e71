"""A worker is killed in the middle of a job, and one of the other system does the job: ours for Node's, and Node's for ours."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from homing import Event, Homing, Job
from homing.config.settings import Settings
from homing.queue.redis import RedisEngine
from tests.crash.children import children
from tests.interop.node import Node, NodeProcess
from tests.system import quick, running
from tests.waiting import until

PATIENCE_SECONDS = 60


class Sent(Event, topic="interop.rescued", unrouted=True):
    """What somebody began."""


def envelope() -> dict[str, Any]:
    """A job's data as every producer sends it."""
    return {"eventId": str(uuid4()), "payload": {}}


async def test_a_node_worker_does_the_job_of_a_killed_worker_of_ours(
    node: Node, engine: RedisEngine, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """SIGKILL while our worker runs it: Node finds the lease ended, counts one stall, and completes the job."""
    with children(database_url, redis_url, node.prefix, tmp_path) as started:
        started.app = "tests.interop.holding_app:app"
        ours = started.worker("--no-relay")
        queue = await node.queue("mail")
        await queue.call("add", "greet", envelope(), {"jobId": "held"})

        async def runs() -> bool:
            return (await engine.counts("mail")).active == 1

        await until(runs, PATIENCE_SECONDS, "our worker runs the job")
        ours.kill()
    worker = await node.worker("mail", "async (job) => job.attemptsStarted", stalledInterval=300)
    await until(lambda: worker.told("completed"), PATIENCE_SECONDS, "Node completes the job")
    assert [told[0] for told in worker.told("stalled")] == ["held"]
    job, result, _ = worker.told("completed")[0]
    assert (job["$job"]["id"], job["$job"]["stalledCounter"], result) == ("held", 1, 2)


async def test_our_worker_does_the_job_of_a_killed_node_worker(
    node: Node, node_process: NodeProcess, redis_url: str, settings: Settings
) -> None:
    """SIGKILL while Node runs it: the job comes here once its lease is over; a rescue is no failed attempt."""
    app = Homing("shop")
    seen: list[tuple[str, int]] = []

    @app.queue("mail").handler("greet", on=Sent, at_least_once=True)
    async def greet(event: Sent, job: Job) -> None:
        del event
        seen.append((job.id, job.attempt))

    doomed = NodeProcess(node_process.folder)
    try:
        theirs = Node(doomed, redis_url, node.prefix)
        await theirs.worker("mail", "() => gate('never')", lockDuration=1000, stalledInterval=500)
        queue = await node.queue("mail")
        await queue.call("add", "greet", envelope(), {"jobId": "held"})

        async def runs() -> bool:
            counts: dict[str, int] = await queue.call("getJobCounts", "active")
            return counts["active"] == 1

        await until(runs, PATIENCE_SECONDS, "Node runs the job")
    finally:
        doomed.kill()
    async with running(app, quick(settings), relay=False):
        await until(lambda: seen, PATIENCE_SECONDS, "our worker runs the job")
    assert seen == [("held", 1)]
    state, made = await node.run(
        "async (queue, id) => { const job = await bullmq.Job.fromId(queue, id); return [await job.getState(), job.attemptsMade]; }",
        queue,
        "held",
    )
    assert [state, made] == ["completed", 1]
