"""One trace through Node and here: BullMQ's telemetry is read from Node's jobs, and written into ours so that Node reads it."""

import asyncio
import json
import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from homing import Event, Homing, Job
from homing.config.settings import Settings
from homing.ids import JobId
from homing.queue.job import NewJob
from tests.exporting import linked, set_up
from tests.system import quick, running
from tests.waiting import until

SCRIPT = Path(__file__).with_name("node_telemetry.cjs")
MODULES = Path(__file__).parents[2] / ".homing" / "bench"
FAR = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "node_modules" / "bullmq").exists(),
    reason="NODE IS LEFT OUT: no node on the PATH, or no bullmq in .homing/bench (make bench-quick installs it)",
)


class Paid(Event, topic="node.paid", unrouted=True):
    """What a Node service tells."""

    amount: int


async def node(settings: Settings, step: str, traceparent: str, data: object = None) -> str:
    """Let the Node service do one thing; what it printed."""
    where = (settings.redis_dsn, settings.prefix or "", "loyalty")
    process = await asyncio.create_subprocess_exec(
        "node", SCRIPT, MODULES, step, *where, traceparent, json.dumps(data), stdout=asyncio.subprocess.PIPE
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    return printed.decode().strip()


@needs_node
async def test_a_run_joins_the_trace_of_its_node_producer(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The span of the run links to Node's span; lines of the run carry Node's trace id, as no other was sent."""
    exported = set_up(monkeypatch)
    app = Homing("shop")
    seen: list[Job] = []

    @app.queue("loyalty").handler("award", on=Paid, at_least_once=True)
    async def award(event: Paid, job: Job) -> None:
        del event
        seen.append(job)

    async with running(app, quick(settings), relay=False):
        await node(settings, "add", FAR, {"eventId": str(uuid4()), "payload": {"amount": 7}})
        await until(lambda: exported.all("process loyalty"))
    assert linked(exported.one("process loyalty")) == [FAR]
    assert [job.trace_id for job in seen] == [FAR[3:35]]


@needs_node
async def test_node_joins_the_trace_of_our_job(settings: Settings) -> None:
    """A Node worker with telemetry begins its span in the context that our job carries."""
    async with running(Homing("shop"), quick(settings), relay=False, worker=False) as system:
        job = NewJob(id=JobId("a"), name="award", data="{}", timestamp_ms=1_767_225_600_000, traceparent=FAR)
        await system.engine.add("loyalty", [job])
        assert await node(settings, "run", "00-" + "1" * 32 + "-" + "2" * 16 + "-01") == FAR
