"""The database goes away while jobs run: stopped, crashed, cut off in the middle of a commit."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from homing.embedded import EmbeddedPostgres, EmbeddedValkey
from tests.crash.app import TABLES, Asked, AskedLeast
from tests.crash.children import Children, children
from tests.crash.conftest import Scene
from tests.tcp_proxy import TcpProxy

JOBS = 4


@pytest.fixture
def on_mortal(mortal_database_url: str, mortal_valkey: EmbeddedValkey, tmp_path: Path) -> Iterator[Children]:
    """Processes on a database that the test restarts."""
    with children(mortal_database_url, mortal_valkey.url(), "mortal", tmp_path) as started:
        yield started


@pytest.fixture
async def before(mortal_database_url: str) -> AsyncIterator[Scene]:
    """The test's view of that database, as long as it lives."""
    connection = await asyncpg.connect(mortal_database_url)
    await connection.execute(TABLES)
    yield Scene(connection)
    connection.terminate()


@pytest.mark.parametrize("immediate", [False, True], ids=["fast", "immediate"])
async def test_restart_while_jobs_run_loses_nothing(
    on_mortal: Children, before: Scene, mortal_postgres: EmbeddedPostgres, mortal_database_url: str, *, immediate: bool
) -> None:
    """A restart in the middle of runs rolls their transactions back and spends no attempt; afterwards each job has its effect."""
    worker = on_mortal.worker()
    await worker.ready()
    await before.record(*(Asked(number=number, gate="hold") for number in range(JOBS)))
    await before.record(*(AskedLeast(number=number, gate="hold") for number in range(JOBS)))
    await before.reached("runs", 2 * JOBS)
    mortal_postgres.stop(immediate=immediate)
    mortal_postgres.start()
    connection = await asyncpg.connect(mortal_database_url)
    try:
        after = Scene(connection)
        await after.open("hold")
        await after.settled(timeout_seconds=40)
        assert await after.outcomes() == {"done"}
        rows = await connection.fetch(
            "SELECT e.topic, count(*) AS times FROM effects f JOIN homing.outbox_events e ON e.id = f.event_id GROUP BY 1, f.event_id"
        )
        assert [row["times"] for row in rows if row["topic"] == "crash.once"] == [1] * JOBS
        assert all(row["times"] >= 1 for row in rows if row["topic"] == "crash.least")
        assert len(rows) == 2 * JOBS
        once = await connection.fetch(
            "SELECT attempt FROM runs r JOIN homing.outbox_events e ON e.id = r.event_id WHERE topic = 'crash.once'"
        )
        assert {row["attempt"] for row in once} == {1}
        assert worker.code is None
    finally:
        await connection.close()


async def test_connection_cut_during_commit_leaves_one_effect(
    scene: Scene, database_url: str, redis_url: str, redis_prefix: str, tmp_path: Path
) -> None:
    """When the answer to COMMIT is lost, nobody guesses: the job goes back without an attempt, and its row says what happened."""
    port = int(database_url.rpartition(":")[2].partition("/")[0])
    async with TcpProxy(port) as proxy:
        with children(proxy.url(database_url), redis_url, redis_prefix, tmp_path) as started:
            worker = started.worker()
            await worker.ready()
            await scene.record(Asked(gate="hold"))
            await scene.reached("runs", 1)
            proxy.cut_after(b"COMMIT;", of=b"INSERT INTO effects")
            await scene.open("hold")
            await scene.settled()
            assert proxy.cuts == 1
            await worker.says("duplicate")
    assert await scene.count("effects") == 1
    assert await scene.count("runs") == 1
    assert await scene.outcomes() == {"done"}
