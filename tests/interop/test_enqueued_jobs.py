"""Jobs that are enqueued directly, over both systems: results, events, and jobs that are the same."""

import pytest

from homing import Deduplicate, Event, Homing
from homing.client import QueueEvent
from homing.config.settings import Settings
from homing.durations import seconds
from homing.errors import JobFailed
from tests.interop.node import Node, NodeError
from tests.system import quick, running

WAITED = seconds(30)


class Asked(Event, topic="interop.asked", unrouted=True):
    """What either system asks for."""

    to: str


async def test_the_result_of_a_node_worker_is_waited_for(node: Node, settings: Settings) -> None:
    """`enqueue` for a worker in Node: its return value, progress and log come back by the handle, and so does a failure."""
    app = Homing("shop")
    mail = app.queue("print")
    app.use(quick(settings))
    processor = """async (job) => {
      if (job.data.to === "nobody") throw new bullmq.UnrecoverableError("no such person");
      await job.updateProgress({ page: 1 });
      await job.log("page 1");
      return { to: job.data.to };
    }"""
    await node.worker("print", processor)
    handle = await mail.enqueue("letter", {"to": "π"}, elsewhere=True)
    assert await handle.result(timeout=WAITED) == {"to": "π"}
    assert await handle.progress() == {"page": 1}
    assert [*(await handle.logs()).lines] == ["page 1"]
    refused = await mail.enqueue("letter", {"to": "nobody"}, elsewhere=True)
    with pytest.raises(JobFailed, match="no such person"):
        await refused.result(timeout=WAITED)
    await app.close()


async def test_node_waits_for_the_result_of_a_worker_here(node: Node, settings: Settings) -> None:
    """`waitUntilFinished` hears of our completions and of our failures, with result and reason."""
    app = Homing("shop")

    @app.queue("mail").handler("greet", on=Asked, at_least_once=True)
    async def greet(event: Asked) -> dict[str, str]:
        return {"to": event.to}

    async with running(app, quick(settings), relay=False):
        queue = await node.queue("mail")
        events = await node.queue_events("mail")
        data = {"eventId": "11111111-2222-4333-8444-555555555555", "payload": {"to": "π"}}
        good = await queue.call("add", "greet", data)
        bad = await queue.call("add", "greet", {"payload": {}})
        assert await good.call("waitUntilFinished", events, 30_000) == {"to": "π"}
        with pytest.raises(NodeError, match="PayloadError"):
            await bad.call("waitUntilFinished", events, 30_000)


async def test_jobs_that_are_the_same_are_one_for_both(node: Node, settings: Settings) -> None:
    """Whoever comes second, there or here, is given the job that stands."""
    app = Homing("shop")
    mail = app.queue("print")
    app.use(quick(settings))
    queue = await node.queue("print")
    handle = await mail.enqueue("letter", {"to": "π"}, elsewhere=True, deduplicate=Deduplicate("one"))
    again = await queue.call("add", "letter", {"to": "somebody"}, {"deduplication": {"id": "one"}})
    assert again.fields["id"] == handle.id
    theirs = await queue.call("add", "letter", {"to": "somebody"}, {"deduplication": {"id": "two"}})
    ours = await mail.enqueue("letter", {"to": "somebody"}, elsewhere=True, deduplicate=Deduplicate("two"))
    assert (ours.deduplicated, ours.id) == (True, theirs.fields["id"])
    await app.close()


async def test_events_of_node_are_followed(node: Node, settings: Settings) -> None:
    """What Node's worker does with a queue is what our stream of its events tells, in order."""
    app = Homing("shop")
    mail = app.queue("print")
    app.use(quick(settings))
    told: list[tuple[str, str | None]] = []
    async with mail.events() as events:
        queue = await node.queue("print")
        await queue.call("add", "letter", {"to": "π"}, {"jobId": "a"})
        await node.worker("print", "async () => 'done'")
        async for event in events:
            if isinstance(event, QueueEvent) and event.job_id == "a":
                told.append((event.kind, event.job_id))
            if told and told[-1][0] == "completed":
                break
    assert [kind for kind, _ in told] == ["added", "waiting", "active", "completed"]
    await app.close()
