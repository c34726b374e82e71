"""A server goes away for some seconds and comes back: a process with all its loops tells it once, and works again by itself."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from homing.embedded import EmbeddedPostgres, EmbeddedValkey
from tests.crash.children import LEAST_APP, Child, Children, children
from tests.crash.conftest import Scene
from tests.crash.least_app import TABLES, AskedLeast
from tests.waiting import until

AWAY_SECONDS = 3.0
MAIN, WAITING, LEASES = "homing", "homing-wait", "homing-leases"


@pytest.fixture
def on_mortal(mortal_database_url: str, mortal_valkey: EmbeddedValkey, tmp_path: Path) -> Iterator[Children]:
    """Processes on servers that the test takes away."""
    with children(mortal_database_url, mortal_valkey.url(), "mortal", tmp_path, LEAST_APP) as started:
        yield started


def warnings_of(worker: Child, logger: str) -> list[str]:
    """What one part of the process said at warning and above."""
    lines = [json.loads(line) for line in worker.log.splitlines() if line.startswith("{")]
    return [line["message"] for line in lines if line["logger"] == logger and line["level"] in ("warning", "error")]


async def a_while() -> None:
    """An outage long enough for every loop to meet it many times."""
    began = asyncio.get_running_loop().time()
    await until(lambda: asyncio.get_running_loop().time() - began > AWAY_SECONDS, what="a while has passed")


async def prepared(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(TABLES)
    await connection.close()


@asynccontextmanager
async def scene_of(url: str) -> AsyncIterator[Scene]:
    connection = await asyncpg.connect(url)
    yield Scene(connection)
    await connection.close()


async def works(url: str) -> None:
    """A new job is done: the process has found its way back."""
    async with scene_of(url) as scene:
        before = await scene.count("effects")
        await scene.record(AskedLeast())
        await scene.reached("effects", before + 1)
        await scene.settled()


async def test_database_away_is_one_line(
    on_mortal: Children, mortal_postgres: EmbeddedPostgres, mortal_database_url: str
) -> None:
    """Relay, watch, sweep and beat all meet it; one of them says so, and one that it is back."""
    await prepared(mortal_database_url)
    worker = on_mortal.worker()
    await worker.ready()
    await works(mortal_database_url)
    await asyncio.to_thread(mortal_postgres.stop, immediate=True)
    await a_while()
    await asyncio.to_thread(mortal_postgres.start)
    await worker.says("the server is back")
    await works(mortal_database_url)
    assert len(warnings_of(worker, "homing.service")) == 1
    assert worker.log.count("the server is back") == 1
    assert warnings_of(worker, "asyncpg.pool") == []


async def test_engine_away_is_one_line_of_the_loops_and_one_of_each_connection(
    on_mortal: Children, mortal_valkey: EmbeddedValkey, mortal_database_url: str
) -> None:
    """Claims, rescue, watch, sweep and the leases of a run meet it; the loops say so once, and each connection once."""
    await prepared(mortal_database_url)
    worker = on_mortal.worker()
    await worker.ready()
    await works(mortal_database_url)
    async with scene_of(mortal_database_url) as scene:
        await scene.record(AskedLeast(gate="after the outage"))
        await scene.reached("runs", 2)
        await asyncio.to_thread(mortal_valkey.stop)
        await a_while()
        await worker.says(f"as {LEASES};")  # which a running job opens with its first beat
        await asyncio.to_thread(mortal_valkey.start)
        await worker.says("the server is back")
        await scene.open("after the outage")
    await works(mortal_database_url)
    assert len(warnings_of(worker, "homing.service")) == 1
    assert worker.log.count("the server is back") == 1
    told = Counter(re.findall(r"no connection to \S+ as (\S+);", worker.log))
    assert told == dict.fromkeys((MAIN, WAITING, LEASES), 1)
