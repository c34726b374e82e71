"""One trace through Node and here: BullMQ's telemetry is read from Node's jobs, and written into ours so that Node reads it."""

from uuid import uuid4

import pytest

from homing import Event, Homing, Job
from homing.config.settings import Settings
from homing.ids import JobId
from homing.queue.job import NewJob
from tests.exporting import linked, set_up
from tests.interop.node import Node, code
from tests.system import quick, running
from tests.waiting import until

FAR = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"

TELEMETRY = """(() => {
  const span = (context) => ({ setSpanOnContext: () => context, setAttribute() {}, setAttributes() {}, addEvent() {}, recordException() {}, end() {} });
  const active = { traceparent: "ACTIVE" };
  return {
    tracer: { startSpan: (_name, _options, parent) => span(parent ?? active) },
    contextManager: {
      with: (_context, work) => work(),
      active: () => active,
      getMetadata: (context) => JSON.stringify(context),
      fromMetadata: (_context, metadata) => (globalThis.joined = JSON.parse(metadata)),
    },
  };
})()"""
"""BullMQ's telemetry as bullmq-otel sets it up, and nothing of OpenTelemetry behind it; what a run joins is kept in `joined`."""


class Paid(Event, topic="node.paid", unrouted=True):
    """What a Node service tells."""

    amount: int


async def test_a_run_joins_the_trace_of_its_node_producer(
    node: Node, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The span of the run links to Node's span; lines of the run carry Node's trace id, as no other was sent."""
    exported = set_up(monkeypatch)
    app = Homing("shop")
    seen: list[Job] = []

    @app.queue("loyalty").handler("award", on=Paid, at_least_once=True)
    async def award(event: Paid, job: Job) -> None:
        del event
        seen.append(job)

    async with running(app, quick(settings), relay=False):
        queue = await node.queue("loyalty", telemetry=code(TELEMETRY.replace("ACTIVE", FAR)))
        await queue.call("add", "award", {"eventId": str(uuid4()), "payload": {"amount": 7}})
        await until(lambda: exported.all("process loyalty"))
    assert linked(exported.one("process loyalty")) == [FAR]
    assert [job.trace_id for job in seen] == [FAR[3:35]]


async def test_node_joins_the_trace_of_our_job(node: Node, settings: Settings) -> None:
    """A Node worker with telemetry begins its span in the context that our job carries."""
    async with running(Homing("shop"), quick(settings), relay=False, worker=False) as system:
        job = NewJob(id=JobId("a"), name="award", data="{}", timestamp_ms=1_767_225_600_000, traceparent=FAR)
        await system.engine.add("loyalty", [job])
        telemetry = code(TELEMETRY.replace("ACTIVE", OTHER))
        worker = await node.worker("loyalty", "async () => 'done'", telemetry=telemetry)
        await until(lambda: worker.told("completed"))
    assert await node.run("() => globalThis.joined.traceparent") == FAR
