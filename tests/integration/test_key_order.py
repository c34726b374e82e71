"""Statements that lock many deliveries take them in the order of their keys, however they are asked, so that no two wait for each other."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from homing.ledger.statements import SETTLE_GROUP, as_rows
from homing.schema.statement import Statement
from homing.worker.batch_settling import SETTLE_BATCH
from tests.waiting import until

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))
BACKWARDS = [THIRD, SECOND, FIRST]

OPEN = "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name) SELECT unnest($1::uuid[]), 'q.c', 'q', 'c'"
HOLD = "SELECT FROM homing.deliveries WHERE event_id = $1 FOR UPDATE"
FREE = "SELECT event_id FROM homing.deliveries ORDER BY event_id FOR UPDATE SKIP LOCKED"
WAITS = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (
            SETTLE_GROUP,
            {"rows": as_rows([{"event_id": event, "consumer": "q.c", "result": None} for event in BACKWARDS])},
        ),
        (SETTLE_BATCH, {"event_ids": BACKWARDS, "consumers": ["q.c"] * 3, "generations": [1] * 3}),
    ],
    ids=["settle_group", "settle_batch"],
)
async def test_rows_are_locked_in_the_order_of_their_keys(
    database_url: str, statement: Statement, values: dict[str, Any]
) -> None:
    """Asked for three rows backwards while somebody holds the second, a settle has the first and leaves the third alone."""
    holder, settler, watcher = [await asyncpg.connect(database_url) for _ in range(3)]
    try:
        await watcher.execute(OPEN, BACKWARDS)
        async with holder.transaction():
            await holder.execute(HOLD, SECOND)
            settled = asyncio.create_task(settler.fetch(statement.numbered, *statement.arguments(values)))
            pid = settler.get_server_pid()
            await until(lambda: watcher.fetchval(WAITS, pid), what="the settle waits for the second row")
            free = [row["event_id"] for row in await watcher.fetch(FREE)]
        await settled
        assert free == [THIRD]
        assert await watcher.fetchval("SELECT count(*) FROM homing.deliveries WHERE outcome = 'done'") == 3
    finally:
        for connection in (holder, settler, watcher):
            await connection.close()
