"""What a working process serves: metrics that any parser reads, and health that waits for no server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from homing import Event, Homing, Provider
from homing.config.settings import Settings
from homing.embedded import EmbeddedValkey
from homing.ledger import ledger
from homing.processes import watching
from homing.processes.opening import open_process
from homing.processes.relaying import RelayLoops
from homing.processes.watching import shown, watched
from homing.worker import Worker
from tests.system import quick
from tests.tcp_proxy import TcpProxy
from tests.waiting import until, wait_until

QUEUES = 40
CALL_SECONDS = 2.0
AT_ONCE_SECONDS = CALL_SECONDS / 2
"""What is answered sooner waited for no call to a server; on an idle machine it is milliseconds, on a busy one it may be a second."""


class Asked(Event, topic="endpoint.asked", unrouted=True):
    number: int = 0


class Endpoint:
    """The endpoint of a process that runs in this event loop, asked from a thread."""

    def __init__(self, address: str) -> None:
        self._client = httpx.Client(base_url=f"http://{address}")

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and document."""
        return await asyncio.to_thread(self.get_blocking, path)

    def get_blocking(self, path: str) -> tuple[int, Any]:
        """The same, while the caller's thread does nothing else."""
        answer = self._client.get(path)
        return answer.status_code, answer.json()

    async def families(self) -> dict[str, Metric]:
        """The metrics, read by Prometheus's own parser."""
        answer = await asyncio.to_thread(self._client.get, "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return {family.name: family for family in text_string_to_metric_families(answer.text)}

    async def fastest_seconds(self, path: str, times: int = 5) -> float:
        """How long the fastest of some answers took: on a busy machine the others waited for the processor."""
        return min([await self._took(path) for _ in range(times)])

    async def _took(self, path: str) -> float:
        began = time.monotonic()
        await asyncio.to_thread(self._client.get, path)
        return time.monotonic() - began


@asynccontextmanager
async def serving(app: Homing, settings: Settings) -> AsyncIterator[Endpoint]:
    """A worker and its relay, as `homing worker` puts them together, in this event loop."""
    settings = quick(settings, http_address="127.0.0.1:0")
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(open_process(app, settings, "worker", routes=True))
        process = stack.enter_context(shown(app, settings, connections, "worker"))
        parts: dict[str, Any] = {"ledger": connections.ledger, "engine": connections.engine, "metrics": process.metrics}
        worker, relay = Worker(app, settings, provider=Provider(), **parts), RelayLoops(app, settings, **parts)
        await worker.start()
        stack.push_async_callback(worker.stop, 1)
        await relay.start()
        stack.push_async_callback(relay.stop)
        await stack.enter_async_context(
            watched(process, settings, connections, worker=worker, relay=relay, patience_seconds=60)
        )
        assert process.address is not None
        yield Endpoint(process.address)


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "COLLECT_SECONDS", 0.2)


def app_of(queues: int) -> Homing:
    app = Homing("served")
    for number in range(queues):

        async def do(event: Asked) -> None:
            pass

        app.queue(f"q{number}", concurrency=2).handler("do", on=Asked, at_least_once=True)(do)
    return app


def values(family: Metric, **labels: str) -> list[float]:
    return [sample.value for sample in family.samples if labels.items() <= sample.labels.items()]


async def test_everything_is_exposed_whatever_the_number_of_queues(settings: Settings) -> None:
    """Gauges of the process and of the last look stand in one valid exposition."""
    async with serving(app_of(QUEUES), settings) as endpoint:
        await until(lambda: _has_looked(endpoint), 20, "the first look")
        families = await endpoint.families()
        assert values(families["homing_worker_slots"]) == [2.0] * QUEUES
        assert len({s.labels["queue"] for s in families["homing_queue_jobs"].samples}) == QUEUES
        assert values(families["homing_build_info"], app="served", engine="redis") == [1.0]
        assert values(families["homing_backend_up"], backend="postgres") == [1.0]
        assert values(families["homing_backend_up"], backend="redis") == [1.0]
        ticks = families["homing_loop_last_tick_timestamp_seconds"]
        for loop in ("claim", "route", "sweep", "beat", "collect", "pulse"):
            (at,) = values(ticks, loop=loop)
            assert time.time() - at < 60
        assert await endpoint.get("/livez") == (200, {"live": True, "reasons": []})
        assert await endpoint.get("/readyz") == (200, {"ready": True, "reasons": []})
        status, verdict = await endpoint.get("/verdict")
        assert (status, verdict["level"], verdict["reasons"]) == (200, "flowing", [])


async def test_a_blocked_event_loop_keeps_no_answer_back(settings: Settings) -> None:
    """A handler that blocks: the process is alive, takes nothing new, and says so while it is blocked."""
    async with serving(app_of(1), settings) as endpoint:
        await until(lambda: _is_ready(endpoint), 20, "it is ready")
        wait_until(
            lambda: endpoint.get_blocking("/readyz")[0] == 503, 20, "it is seen from outside"
        )  # this blocks the event loop
        _, document = endpoint.get_blocking("/readyz")
        assert "the event loop has not turned for" in document["reasons"][0]
        assert endpoint.get_blocking("/livez")[0] == 200
        await until(lambda: _is_ready(endpoint), 20, "it is ready again")


async def test_the_row_of_a_process_says_what_it_does(settings: Settings) -> None:
    """Whoever reads the list of workers knows which of them route, and how full and how well each one is."""
    async with serving(app_of(1), settings):
        sql = await asyncpg.connect(settings.asyncpg_dsn)

        async def state() -> dict[str, Any] | None:
            row = await sql.fetchrow("SELECT routes, state FROM homing.workers")
            return json.loads(row["state"]) if row and row["routes"] else None

        async def told() -> bool:
            return bool(await state())

        await until(told, 20, "a beat with a state")
        said = await state()
        assert said is not None
        assert (said["live"], said["slots"], said["running"], said["parked"]) == (True, {"q0": 2}, {"q0": 0}, {})
        await sql.close()


async def _has_looked(endpoint: Endpoint) -> bool:
    families = await endpoint.families()
    return "homing_queue_jobs" in families and "homing_worker_slots" in families


async def test_a_silent_database_leaves_a_process_live_and_answering(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither health nor metrics wait for it: live, not ready, and the reason names it; ready again when it is back."""
    monkeypatch.setattr(ledger, "CALL_SECONDS", CALL_SECONDS)
    url = settings.asyncpg_dsn
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(TcpProxy(int(url.rpartition(":")[2].partition("/")[0])))
        through = settings.model_copy(update={"database_url": proxy.url(url)})
        endpoint = await stack.enter_async_context(serving(app_of(1), through))
        stack.push_async_callback(proxy.heal)
        await until(lambda: _is_ready(endpoint), 20, "it is ready")
        proxy.silence()
        await _tells_of_the_outage(endpoint, "PostgreSQL", "postgres")
        for path in ("/livez", "/readyz", "/verdict", "/metrics"):
            assert await endpoint.fastest_seconds(path) < AT_ONCE_SECONDS
        await proxy.heal()
        await _recovers(
            endpoint, "postgres"
        )  # that it was counted is tested with the engine: the loop that listens is the last to be through


async def test_an_engine_that_is_gone_leaves_a_process_live(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """As without the database; and the verdict says it too, from a look that the database still answers."""
    async with serving(app_of(1), disposable_settings) as endpoint:
        await until(lambda: _is_ready(endpoint), 20, "it is ready")
        disposable_valkey.stop()
        await _tells_of_the_outage(endpoint, "Redis", "redis")

        async def is_told() -> bool:
            status, verdict = await endpoint.get("/verdict")
            return status == 503 and "nothing is lost meanwhile" in verdict["reasons"][0]["remedy"]

        await until(is_told, 20, "the verdict names the engine")
        disposable_valkey.start()
        await _recovers(endpoint, "redis")
        await until(lambda: _has(endpoint, "homing_backend_reconnects", 1.0, "redis"), 20, "it is counted")


async def _tells_of_the_outage(endpoint: Endpoint, server: str, backend: str) -> None:
    await until(lambda: _says(endpoint, f"{server} does not answer"), 20, "it says who is away")
    assert (await endpoint.get("/livez"))[0] == 200
    await until(lambda: _has(endpoint, "homing_backend_up", 0.0, backend), 10, "the gauge falls")


async def _recovers(endpoint: Endpoint, backend: str) -> None:
    await until(lambda: _is_ready(endpoint), 20, "it is ready again")
    await until(lambda: _has(endpoint, "homing_backend_up", 1.0, backend), 10, "the gauge rises")


async def test_a_look_that_hangs_delays_no_answer(settings: Settings) -> None:
    """Somebody locks the table that the look reads: health is told from memory, at once."""
    async with serving(app_of(1), settings) as endpoint:
        await until(lambda: _has_looked(endpoint), 20, "the first look")
        sql = await asyncpg.connect(settings.asyncpg_dsn)
        async with sql.transaction():
            await sql.execute("LOCK TABLE homing.deliveries")

            async def hangs() -> bool:
                return bool(await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

            await until(hangs, 10, "the look waits for the lock")
            for path in ("/livez", "/readyz", "/verdict", "/metrics"):
                assert await endpoint.fastest_seconds(path) < AT_ONCE_SECONDS
            assert (await endpoint.get("/livez"))[0] == 200
        await sql.close()


async def _is_ready(endpoint: Endpoint) -> bool:
    return (await endpoint.get("/readyz"))[0] == 200


async def _says(endpoint: Endpoint, reason: str) -> bool:
    status, document = await endpoint.get("/readyz")
    return status == 503 and reason in document["reasons"]


async def _has(endpoint: Endpoint, name: str, least: float, backend: str) -> bool:
    families = await endpoint.families()
    found = values(families[name], backend=backend)
    return bool(found) and (found[0] >= least if least else found[0] == 0)
