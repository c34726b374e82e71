"""`homing status`: what it answers, how fast it turns red, and what it says when a server is away."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest

from homing import Event, Homing
from homing.cli.exits import Exit
from homing.config.settings import Settings
from homing.ledger.ledger import Ledger
from homing.operations.status import read_sure_status
from homing.operations.verdict import Level
from homing.queue.redis import RedisEngine
from tests.integration.buried import bury
from tests.integration.commands import Commands
from tests.system import quick, running
from tests.waiting import wait_until

SUBSCRIBE = "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) VALUES ('seen.asked', 'work.do', 'work', 'do', 'tx')"
REGISTER = "INSERT INTO homing.queues (queue) VALUES ('work')"
ROUTE_ONE = """
UPDATE homing.outbox_events SET published_at = now()
WHERE id = (SELECT id FROM homing.outbox_events WHERE published_at IS NULL ORDER BY available_at LIMIT 1)
"""
RECORD = """
INSERT INTO homing.outbox_events (id, topic, payload, available_at)
VALUES (gen_random_uuid(), $1, '{}', now() - make_interval(secs => $2))
"""


class Asked(Event, topic="seen.asked"):
    number: int = 0


def seen_app() -> Homing:
    app = Homing("test")

    @app.queue("work").handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None: ...

    return app


def nowhere() -> str:
    """An address of this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def prepare(settings: Settings, *statements: tuple[Any, ...]) -> None:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        for statement, *arguments in statements:
            await connection.execute(statement, *arguments)
    finally:
        await connection.close()


async def test_without_a_relay_it_is_red_within_fifteen_seconds_and_says_why(
    settings: Settings, command: Commands
) -> None:
    """A due event that nobody routes is no trouble yet when it is young, and a standstill at fourteen seconds, with the remedy; 1 with --check."""
    await prepare(settings, (SUBSCRIBE,), (RECORD, "seen.asked", 0.0))
    young = await asyncio.to_thread(command, "--json", "status", "--check")
    assert young.json["level"] == "flowing"
    await prepare(settings, ("UPDATE homing.outbox_events SET available_at = now() - interval '14 s'",))
    said = await asyncio.to_thread(command, "status", "--check")
    assert said.code == Exit.FOUND_WRONG
    assert said.out.startswith("STALLED at ")
    assert "topic seen.asked: 1 events wait to be routed" in said.out
    assert "start `homing worker` or `homing relay`" in said.out
    assert (await asyncio.to_thread(command, "status")).code == Exit.DONE


async def test_late_work_that_a_live_relay_routes_is_no_standstill(settings: Settings, redis_prefix: str) -> None:
    """A second look tells the two apart: what was routed in between is being caught up with, what was not stands still."""
    relay = "INSERT INTO homing.workers (id, host, pid, version, role, routes, consumers, queues) VALUES (gen_random_uuid(), 'h', 1, '1', 'relay', true, '{}', '{}')"
    await prepare(settings, (SUBSCRIBE,), (RECORD, "seen.asked", 30.0), (RECORD, "seen.asked", 20.0), (relay,))
    engine = RedisEngine(settings.redis_dsn, prefix=redis_prefix)
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()

    async def route_one() -> None:
        await prepare(settings, (ROUTE_ONE,))

    async def route_none() -> None: ...

    assert (await read_sure_status(ledger, engine, route_one)).verdict.level is Level.ATTENTION
    stuck = (await read_sure_status(ledger, engine, route_none)).verdict
    assert stuck.level is Level.STALLED
    assert "lives and does not route it" in stuck.reasons[0].remedy
    await engine.close()
    await ledger.close()


async def test_it_names_what_fails_and_what_is_nobodys(settings: Settings, command: Commands) -> None:
    """Deaths of the last hour by class, topics without a consumer, parked events, consumers that no live process knows."""
    await prepare(settings, (SUBSCRIBE,), (RECORD, "seen.stranger", 1.0), (RECORD, "seen.bad", 1.0))
    await prepare(settings, ("UPDATE homing.outbox_events SET parked_error = 'no object' WHERE topic = 'seen.bad'",))
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    await bury(connection, 3, consumer="mail.send")
    await connection.close()
    said = await asyncio.to_thread(command, "status")
    for words in ("What is failing?", "OutOfOrder", "topic seen.stranger", "topic seen.bad", "consumer work.do"):
        assert words in said.out, words
    seen = (await asyncio.to_thread(command, "--json", "status")).json
    assert (seen["failing"][0]["consumer"], seen["failing"][0]["deaths"]) == ("mail.send", 3)
    assert seen["nobodys"] == {
        "unroutable": ["seen.stranger"],
        "parked": ["seen.bad"],
        "unowned": ["work.do"],
    }
    assert {total["table"]: total["rows"] for total in seen["totals"]} == {"events": 5, "deliveries": 3, "letters": 3}


async def test_a_flowing_system_is_green(settings: Settings, command: Commands) -> None:
    """With a worker and a relay at work there is nothing to say but that work flows."""
    app = seen_app()
    async with running(app, quick(settings)) as system:
        await system.record(Asked(), Asked())
        await system.settled()
        said = await asyncio.to_thread(command, "status")
        assert said.out.startswith("FLOWING at ")
        assert "work " in said.out.partition("Queues")[2]
        top = (await asyncio.to_thread(command, "--json", "top", "--once", "--every", "100ms")).json
        assert [queue["queue"] for queue in top["queues"]] == ["work"]


def test_with_the_engine_away_the_ledger_is_shown(
    settings: Settings, command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What PostgreSQL knows is on the screen, one line on stderr says that Redis is away, and the code is 4."""
    monkeypatch.setenv("REDIS_URL", f"redis://{nowhere()}")
    asyncio.run(prepare(settings, (SUBSCRIBE,), (REGISTER,), (RECORD, "seen.asked", 1.0)))
    said = command("status")
    assert said.code == Exit.SERVER
    assert said.out.startswith("STALLED at ")
    assert "seen.asked" in said.out
    assert said.err.count("\n") == 1
    assert "redis://127.0.0.1" in said.err
    assert command("top", "--once", "--every", "100ms").code == Exit.SERVER


def test_with_the_ledger_away_each_says_so_in_one_line(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line on stderr that names the address, nothing on stdout, and code 4."""
    address = nowhere()
    monkeypatch.setenv("DATABASE_URL", f"postgresql://u@{address}/shop")
    looks = ["status", "top", "tail", "events list", "consumers list", "workers list", "actions list"]
    for line in (*looks, "consumers retire q.a --why x --yes", f"events show {UUID(int=1)}"):
        said = command(*line.split())
        assert (said.code, said.out) == (Exit.SERVER, ""), line
        assert said.err.count("\n") == 1, line
        assert address in said.err, line


@pytest.fixture
def watched(settings: Settings, command: Commands, tmp_path: Path) -> Iterator[Any]:
    """Starts `homing …` as a process of its own; one that still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], Path]:
        said = tmp_path / f"said-{len(started)}"
        with said.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "homing", *arguments], stdout=out, stderr=out, text=True, env=os.environ.copy()
            )
        started.append(process)
        return process, said

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_what_goes_on_ends_with_ctrl_c(settings: Settings, watched: Any) -> None:
    """A watch draws picture after picture, a tail tells a deed that happens meanwhile; both end with 0 and without a traceback."""
    watch, screen = watched("status", "--watch")
    tail, lines = watched("tail")
    wait_until(lambda: screen.read_text().count("FLOWING") >= 2, 45, "two pictures")

    def told() -> bool:
        with psycopg.connect(settings.psycopg_dsn, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO homing.operator_actions (actor, action, subject, affected) VALUES ('a@h', 'prune', '{}', 7)"
            )
        return "prune of 7" in lines.read_text()

    wait_until(told, 45, "the deed is told")
    for process in (watch, tail):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert "Traceback" not in screen.read_text() + lines.read_text()
