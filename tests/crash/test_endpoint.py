"""What real processes serve: the verdict when the relay stands still, and one endpoint for several workers."""

import re
import signal
from typing import Any

import httpx
import psutil
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from homing import Event
from tests.crash.children import LEAST_APP, Child, Children
from tests.crash.conftest import Scene
from tests.crash.least_app import AskedLeast
from tests.waiting import until

APP = LEAST_APP
SERVED = {"HOMING_HTTP_ADDRESS": "127.0.0.1:0"}


class Unheard(Event, topic="crash.unheard", unrouted=True):
    """Nobody handles it."""


class Endpoint:
    """Where a process serves, taken from the line that says so."""

    def __init__(self, child: Child) -> None:
        found = re.search(r"health and metrics at (http://[\d.:]+)", child.log)
        assert found is not None, child.log
        self._client = httpx.Client(base_url=found[1])

    def status(self, path: str) -> int:
        """The status alone."""
        return self._client.get(path).status_code

    def document(self, path: str) -> dict[str, Any]:
        """The document alone."""
        found: dict[str, Any] = self._client.get(path).json()
        return found

    def families(self) -> list[Metric]:
        """The metrics, read by Prometheus's own parser."""
        answer = self._client.get("/metrics")
        assert answer.status_code == 200, answer.text
        return list(text_string_to_metric_families(answer.text))

    def names(self) -> list[str]:
        """The names of the metrics; each may be there once."""
        return [family.name for family in self.families()]

    def total(self, name: str) -> float:
        """The sum of a sample over all its series."""
        return sum(sample.value for family in self.families() for sample in family.samples if sample.name == name)


async def test_verdict_is_red_soon_after_the_relay_stands_still(processes: Children, scene: Scene) -> None:
    """A frozen relay, events that wait: soon every other process says so, with who is silent and what nobody handles."""
    relay, worker = processes.relay(), processes.worker("--no-relay", **SERVED)
    await relay.ready()
    await worker.ready()
    endpoint = Endpoint(worker)
    await scene.record(AskedLeast())
    await scene.settled()
    await until(lambda: endpoint.document("/verdict")["level"] == "flowing", 10, "work flows")
    relay.signal(signal.SIGSTOP)
    await scene.record(AskedLeast(), Unheard())
    await until(lambda: endpoint.status("/verdict") == 503, 15, "the verdict is red")
    stalled, *others = endpoint.document("/verdict")["reasons"]
    assert "topic crash.least: 1 events wait to be routed" in stalled["text"]
    assert f"the relay in process {relay.pid}" in stalled["remedy"]
    (unheard,) = [reason for reason in others if "crash.unheard" in reason["text"]]
    assert "deploy the workers whose code handles it" in unheard["remedy"]
    assert endpoint.status("/livez") == endpoint.status("/readyz") == 200
    relay.signal(signal.SIGCONT)
    await until(lambda: endpoint.document("/verdict")["level"] != "stalled", 20, "it flows again")


async def test_several_workers_have_one_endpoint(processes: Children, scene: Scene) -> None:
    """Slots add up, a worker that dies takes none of its counts along, and one that is left keeps all ready; the stop is told too."""
    supervisor = processes.worker("--processes", "2", **SERVED)
    await supervisor.says("health and metrics at")
    endpoint = Endpoint(supervisor)
    await until(lambda: endpoint.total("homing_worker_slots") == 2 * 4, 60, "both workers count")
    await until(lambda: "homing_queue_jobs" in endpoint.names(), 20, "one of them has looked")
    assert len(endpoint.names()) == len(set(endpoint.names()))
    await until(lambda: endpoint.document("/readyz") == {"ready": True, "reasons": []}, 10, "all of them are ready")
    assert endpoint.document("/verdict")["level"] == "flowing"
    turns = "homing_event_loop_lag_seconds_count"
    await until(lambda: endpoint.total(turns) >= 4, 20, "turns are counted")
    counted = endpoint.total(turns)
    await scene.record(AskedLeast())
    await until(lambda: endpoint.total("homing_job_runs_total") == 1, 20, "a run is counted, whoever ran it")
    routing, other = sorted(
        psutil.Process(supervisor.pid).children(), key=lambda child: "--no-relay" in child.cmdline()
    )
    other.kill()
    await supervisor.says("ended with -9")
    await until(lambda: endpoint.total("homing_worker_slots") == 4, 5, "the slots of the dead one are gone")
    assert endpoint.total(turns) >= counted
    assert endpoint.status("/livez") == endpoint.status("/readyz") == 200
    await scene.record(AskedLeast(gate="hold"))
    await scene.reached("runs", 2)
    supervisor.signal(signal.SIGTERM)
    await until(lambda: endpoint.status("/readyz") == 503, 10, "it drains")
    assert endpoint.status("/livez") == 200
    await scene.open("hold")
    assert await supervisor.ended() == 0
    assert not routing.is_running()
