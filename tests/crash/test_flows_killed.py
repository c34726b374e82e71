"""A flow whose worker dies at every step, with the queue's data flushed in the middle: one tree, each effect once, every value right."""

import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from redis import Redis

from homing.embedded import EmbeddedValkey
from tests.crash.children import Children, children
from tests.crash.conftest import Scene
from tests.crash.flow_app import ADDING, ENDING, PARCELS, Billed
from tests.waiting import until


@pytest.fixture
def processes(
    database_url: str, mortal_valkey: EmbeddedValkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Children]:
    """Processes of the app that dies, on a Valkey that may be flushed."""
    steps = tmp_path / "steps"
    steps.mkdir()
    monkeypatch.setenv("CRASH_FOLDER", str(steps))
    with children(database_url, mortal_valkey.url(), "flows", tmp_path) as started:
        started.app = "tests.crash.flow_app:app"
        yield started


async def test_a_flow_survives_every_death_and_a_flush(
    processes: Children, scene: Scene, mortal_valkey: EmbeddedValkey, tmp_path: Path
) -> None:
    """However often its worker dies, and though Redis loses everything while it waits, nothing of it is done twice, and nothing is lost."""
    await scene.record(Billed())
    for _ in ADDING:
        assert await processes.worker("--queues", "bills").ended(60) == -9
    with Redis.from_url(mortal_valkey.url()) as client:
        client.flushall()
    for _ in ENDING:
        assert await processes.worker().ended(60) == -9
    processes.worker()
    await until(lambda: _is_settled(scene), 60, "everything is settled")
    assert {mark.name for mark in (tmp_path / "steps").iterdir()} == {*ADDING, *ENDING}
    effects = await scene.sql.fetch("SELECT event_id, pid FROM effects")
    assert sorted(row["pid"] for row in effects) == list(range(PARCELS))
    rows = await scene.sql.fetch("SELECT event_id, consumer, outcome, result::text FROM homing.deliveries")
    assert {row["outcome"] for row in rows} == {"done"}
    assert sorted(row["consumer"] for row in rows) == ["bills.bill"] + ["parcels.ship"] * PARCELS
    (bill,) = (row for row in rows if row["consumer"] == "bills.bill")
    assert json.loads(bill["result"]) == {f"ship-{number}": number * 10 for number in range(PARCELS)}
    assert await scene.count("homing.dead_letters") == 0


async def _is_settled(scene: Scene) -> bool:
    """Whether the event is routed, and neither it nor a child is open."""
    row: asyncpg.Record | None = await scene.sql.fetchrow(
        "SELECT count(*) AS rows, count(settled_at) AS settled FROM homing.deliveries"
    )
    return row is not None and row["rows"] == row["settled"] == PARCELS + 1
