"""Everything on uvloop, which `uvicorn[standard]` takes where it is: a worker with every kind of handler, a web process, lost connections, a stop."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from homing.config.settings import Settings
from homing.durations import minutes
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.queue.redis import RedisEngine
from homing.relay import wake
from homing.schema.statement import parse
from tests.crash.children import ROOT
from tests.integration.uvloop_app import TOKEN, TRANSACTIONS, Bought, Held, app, kinds, loop_name
from tests.system import System, quick, running
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

SLEEP = parse("sleep", "SELECT pg_sleep(60)")
EFFECTS = "CREATE TABLE effects (kind text, loop text)"
UVLOOP = {
    "asyncpg": "uvloop",
    "psycopg": "uvloop",
    "batch": "uvloop",
    "coroutine": "uvloop",
    "thread": "none",
    "child": "none",
}


def port_of(url: str) -> int:
    """The port that is in a URL."""
    return int(re.findall(r":(\d+)/", url)[0])


async def loops_of(system: System) -> dict[str, str]:
    """Where each kind of handler ran, by what it returned."""
    rows = await system.sql.fetch(
        "SELECT split_part(consumer, '.', 2) AS kind, result FROM homing.deliveries WHERE outcome = 'done'"
    )
    return {row["kind"]: row["result"].strip('"') for row in rows}


async def test_every_kind_of_handler_runs(settings: Settings) -> None:
    """Coroutines, threads, children and batches, in transactions of both drivers: woken by a notification alone, each effect is there once."""
    assert loop_name() == "uvloop"
    only_woken = quick(settings, relay_poll=minutes(10))
    async with running(app, only_woken) as system:
        assert system.relay is not None
        await system.sql.execute(EFFECTS)
        await until(lambda: listens(system), what="the relay hears its own notification")
        await system.record(Bought())
        await system.settled(30)
        assert await loops_of(system) == UVLOOP
        rows = await system.sql.fetch("SELECT kind, loop FROM effects")
        assert {row["kind"]: row["loop"] for row in rows} == {kind: UVLOOP[kind] for kind in TRANSACTIONS}
        assert len(rows) == len(TRANSACTIONS)


async def test_lost_and_silent_connections_come_back(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to Redis and PostgreSQL that are cut, and then ones that say nothing any more, are given up and made again; jobs go on."""
    monkeypatch.setattr(wake, "PROBE_SECONDS", 0.5)
    async with TcpProxy(port_of(settings.redis_dsn)) as redis, TcpProxy(port_of(settings.asyncpg_dsn)) as postgres:
        assert settings.prefix is not None
        engine = RedisEngine(redis.url(settings.redis_dsn), prefix=settings.prefix, silence_seconds=0.5)
        through = quick(settings, listen_database_url=postgres.url(settings.asyncpg_dsn))
        async with running(app, through, engine=engine) as system:
            await until(lambda: listens(system), what="the relay hears its own notification")
            await redis.cut()
            await postgres.cut()
            await passes(system)
            redis.silence()
            postgres.silence()
            with pytest.raises(ServerUnavailable):
                await engine.counts(kinds.name)
            await until(lambda: not listens(system), what="the relay knows that it is deaf")
            await redis.heal()
            await postgres.heal()
            await passes(system)


def listens(system: System) -> bool:
    """Whether the relay hears its own notifications: it asks now, and not in some seconds."""
    assert system.relay is not None
    (loop,) = (loop for loop in system.relay.loops if loop.name == "listen")
    loop.wake()
    return system.relay.listener.hears


async def passes(system: System) -> None:
    """An event goes all the way, and the relay hears."""
    await system.record(Held(gate=Path(__file__)))
    await system.settled(30)
    await until(lambda: listens(system), what="the relay hears again")


async def test_a_statement_that_is_cut_off_is_an_outage(settings: Settings) -> None:
    """What the ledger asks on a connection that breaks meanwhile is `ServerUnavailable`, and the next question finds the server again."""
    async with TcpProxy(port_of(settings.asyncpg_dsn)) as proxy:
        ledger = Ledger(proxy.url(settings.asyncpg_dsn), engine="redis", application="test", connections=1)
        await ledger.open()
        proxy.silence_after(b"pg_sleep")
        sleeping = asyncio.create_task(ledger.fetch(SLEEP))
        await until(lambda: proxy.silent, what="the server works on it")
        await proxy.heal()
        with pytest.raises(ServerUnavailable):
            await sleeping
        assert len(await ledger.fetch(wake.PROBE, channel="nobody")) == 1
        await ledger.close()


@contextmanager
def process(settings: Settings, folder: Path, *command: str) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """A Python process on this test's servers, and its log; it is gone at the end."""
    assert settings.prefix is not None
    variables = {
        "DATABASE_URL": settings.asyncpg_dsn,
        "REDIS_URL": settings.redis_dsn,
        "HOMING_PREFIX": settings.prefix,
    }
    log = folder / "process.log"
    with log.open("wb") as written:
        started = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env={**os.environ, **variables}, stdout=written, stderr=written
        )
    try:
        yield started, log
    finally:
        started.kill()
        started.wait()


async def ended(started: "subprocess.Popen[bytes]") -> int:
    """The exit code of a process that ends by itself."""
    await until(lambda: started.poll() is not None, 20, "the process ends")
    return started.returncode


async def test_a_web_process_records_enqueues_and_shows(settings: Settings, tmp_path: Path) -> None:
    """FastAPI under uvicorn: an event in the request's transaction, a job with its result, the dashboard and its stream; SIGTERM ends all of it."""
    command = "uvicorn", "--factory", "tests.integration.uvloop_app:api", "--loop", "uvloop", "--port", "0"
    async with running(app, quick(settings)) as system:
        await system.sql.execute(EFFECTS)
        with process(settings, tmp_path, *command) as (started, log):
            (address,) = await until(
                lambda: re.findall(r"running on (http://[\d.:]+)", log.read_text()), 20, "it serves"
            )
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as web:
                assert (await web.post("/bought/12")).json() == {"loop": "uvloop", "square": 144}
                await system.settled(30)
                assert await loops_of(system) == UVLOOP | {"square": "144"}
                assert kinds.name in (await web.get(f"/ops/queues/{kinds.name}")).text
                async with web.stream("GET", "/ops/live") as stream:
                    assert "retry: " in await anext(stream.aiter_lines())
            started.send_signal(signal.SIGTERM)
            assert await ended(started) == -signal.SIGTERM, log.read_text()
            assert "Application shutdown complete" in log.read_text()
            assert "Traceback" not in log.read_text()


async def test_a_worker_process_tells_who_blocks_it_and_ends_in_order(settings: Settings, tmp_path: Path) -> None:
    """With uvloop's policy in its app's module: the stack of a blocked loop is the handler's alone, and SIGTERM lets a run finish."""
    command = "homing", "--app", "tests.integration.uvloop_worker:app", "worker"
    first, second = tmp_path / "first", tmp_path / "second"
    async with running(app, quick(settings), worker=False) as system:
        await system.sql.execute(EFFECTS)
        with process(settings, tmp_path, *command) as (started, log):

            def lines_with(*words: str) -> list[str]:
                return [line for line in log.read_text().splitlines() if all(word in line for word in words)]

            await until(lambda: lines_with(" ready"), 20, "it works")
            await system.record(Held(gate=first, blocks=True))
            blocked = await until(lambda: lines_with("has not turned", "in hold"), 20, "it tells who blocks it")
            first.touch()
            await system.record(Held(gate=second))
            await until(lambda: len(lines_with("held on uvloop")) == 2, 20, "the second one runs")
            started.send_signal(signal.SIGTERM)
            await until(lambda: lines_with("SIGTERM: stopping"), 20, "it is told")
            second.touch()
            assert await ended(started) == 0, log.read_text()
        assert "run_until_complete" not in blocked[0]
        await system.settled(20)
