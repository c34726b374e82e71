"""We produce, Node runs: what is asked for with a job is honoured there, and we see what became of it."""

from homing.backoff import Backoff
from homing.ids import JobId
from homing.queue.job import JobTrace, NewJob
from homing.queue.port import Accepted
from homing.queue.redis import RedisEngine
from tests.interop.node import Made, Node
from tests.waiting import until

NOW_MS = 1_767_225_600_000
PROCESSOR = """async (job) => {
  if (job.name === "flaky" && job.attemptsMade < 2) throw new Error("not yet");
  if (job.name === "refuse") throw new bullmq.UnrecoverableError("never");
  if (job.name === "fail") throw new Error("no");
  return { to: job.data.to, attempts: job.opts.attempts };
}"""


async def add(engine: RedisEngine, job_id: str, name: str = "greet", **terms: object) -> None:
    """Add one job."""
    new = NewJob(id=JobId(job_id), name=name, data='{"to":"π"}', timestamp_ms=NOW_MS, **terms)  # type: ignore[arg-type]  # tests name only the terms that matter
    assert await engine.add("mail", [new]) == [Accepted.ACCEPTED]


def completed_in_turn(worker: Made) -> list[str]:
    """The ids of the jobs that Node has completed."""
    return [job["$job"]["id"] for job, *_ in worker.told("completed")]


async def trace(engine: RedisEngine, job_id: str) -> JobTrace:
    """What we know of a job."""
    (found,) = await engine.inspect("mail", [JobId(job_id)])
    return found


async def test_every_kind_of_job_of_ours_runs_in_node(node: Node, engine: RedisEngine) -> None:
    """Plain, delayed, with priorities, last in first out: each in its turn; a stranger completed it, so that it has no mark of ours."""
    await add(engine, "plain", attempts=5)
    await add(engine, "low", priority=9)
    await add(engine, "high", priority=1)
    await add(engine, "late", delay_seconds=0.1)
    await add(engine, "first", lifo=True)
    worker = await node.worker("mail", PROCESSOR)
    await until(lambda: len(completed_in_turn(worker)) == 5)
    assert [job_id for job_id in completed_in_turn(worker) if job_id != "late"] == ["first", "plain", "high", "low"]
    assert await trace(engine, "plain") == JobTrace(exists=True, name="greet", finished=True)
    (end,) = await engine.ends("mail", [JobId("plain")])
    assert (end.result, end.attempts_made) == ('{"to":"π","attempts":5}', 1)


async def test_node_tries_our_jobs_again_as_they_ask(node: Node, engine: RedisEngine) -> None:
    """Attempts and backoff with jitter are in Node's own words; a job that it gives up has its reason and stack where we read them."""
    jittered = Backoff(kind="exponential", delay_seconds=0.02, jitter=0.5)
    await add(engine, "flaky", "flaky", attempts=3, backoff=jittered)
    await add(engine, "refuse", "refuse", attempts=3, backoff=jittered)
    await add(engine, "fail", "fail", attempts=2, backoff=Backoff(kind="fixed", delay_seconds=0.01))
    worker = await node.worker("mail", PROCESSOR)
    await until(lambda: completed_in_turn(worker) == ["flaky"])

    async def both_failed() -> bool:
        return (await engine.counts("mail")).failed == 2

    await until(both_failed)
    flaky, refuse, fail = await engine.ends("mail", [JobId("flaky"), JobId("refuse"), JobId("fail")])
    assert (flaky.attempts_made, refuse.attempts_made, fail.attempts_made) == (3, 1, 2)
    assert (refuse.reason, fail.reason) == ("never", "no")
    assert fail.stack.startswith("Error: no\n")
    assert (await trace(engine, "fail")).failed_reason == "no"
