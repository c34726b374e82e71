"""The statements that run all day use their indexes, and cost the same however much lies around."""

import json
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from homing.ledger.statements import LOOK, LOOKED, READ, SETTLE
from homing.relay.relay import ROUTE
from homing.schema.statement import Statement

BACKLOG = 20_000
"""Rows that the statements must not touch: published, scheduled and unroutable events, settled and later deliveries."""


@pytest.fixture
async def ledger(database_url: str) -> Any:
    """A ledger with one subscription, ten events to route, ten deliveries to look at, and much else."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) VALUES ('known', 'q.c', 'q', 'c', 'tx')"
        )
        await connection.execute(
            "INSERT INTO homing.queues (queue, epoch, changed_at) VALUES ('q', 1, now() - interval '1 h')"
        )
        await _events(connection, 10, "'known'", "now() - interval '1 s'", "NULL")
        await _deliveries(connection, 10, "NULL", "NULL", "now() - interval '1 s'")
        yield connection
    finally:
        await connection.close()


async def _events(connection: asyncpg.Connection, number: int, topic: str, available: str, published: str) -> None:
    await connection.execute(
        "INSERT INTO homing.outbox_events (id, topic, payload, available_at, published_at)"  # noqa: S608 - our own words
        f" SELECT gen_random_uuid(), {topic}, '{{}}', {available}, {published} FROM generate_series(1, {number}) i"
    )


async def _deliveries(connection: asyncpg.Connection, number: int, outcome: str, settled: str, check: str) -> None:
    await connection.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, epoch, outcome, settled_at, check_at)"  # noqa: S608 - as above
        f" SELECT gen_random_uuid(), 'q.c', 'q', 'c', 1, {outcome}, {settled}, {check} FROM generate_series(1, {number})"
    )


async def pile_up(connection: asyncpg.Connection) -> None:
    """Add what must not cost anything."""
    await _events(connection, BACKLOG, "'known'", "now()", "now()")
    await _events(connection, BACKLOG, "'known'", "now() + interval '1 day'", "NULL")
    await _events(connection, BACKLOG, "'unknown' || i % 50", "now() - interval '1 day'", "NULL")
    await _deliveries(connection, BACKLOG, "'done'", "now()", "now() - interval '1 day'")
    await _deliveries(connection, BACKLOG, "NULL", "NULL", "now() + interval '1 day'")
    await connection.execute("ANALYZE homing.outbox_events, homing.deliveries, homing.subscriptions, homing.queues")


async def explain(connection: asyncpg.Connection, statement: Statement, **values: object) -> dict[str, Any]:
    """Run the statement, roll it back, and return its plan with buffers."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        plan = await connection.fetchval(
            "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + statement.numbered, *statement.arguments(values)
        )
    finally:
        await transaction.rollback()
    root: dict[str, Any] = json.loads(plan)[0]["Plan"]
    return root


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]


def indexes(plan: dict[str, Any]) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def read_whole(plan: dict[str, Any]) -> set[str]:
    """The tables of some size that are read from end to end."""
    big = {"outbox_events", "deliveries", "dead_letters"}
    return {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"} & big


def buffers(plan: dict[str, Any]) -> int:
    hit: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return hit


async def keys(connection: asyncpg.Connection) -> dict[str, list[Any]]:
    """Ten unsettled deliveries, as the statements take them."""
    rows = await connection.fetch(
        "SELECT event_id, consumer, generation FROM homing.deliveries WHERE check_at <= now() AND settled_at IS NULL ORDER BY event_id LIMIT 10"
    )
    return {
        "event_ids": [row["event_id"] for row in rows],
        "consumers": [row["consumer"] for row in rows],
        "generations": [row["generation"] for row in rows],
    }


async def test_route_reads_what_it_routes_and_nothing_else(ledger: asyncpg.Connection) -> None:
    """Published, scheduled and unroutable events cost the route statement nothing."""
    await ledger.execute("ANALYZE homing.outbox_events, homing.deliveries")
    arguments: dict[str, object] = {"page": 100, "queues": ["q"], "epochs": [1]}
    small = await explain(ledger, ROUTE, **arguments)
    await pile_up(ledger)
    large = await explain(ledger, ROUTE, **arguments)
    assert "outbox_events_unpublished" in indexes(large)
    assert read_whole(large) == set()
    assert large["Actual Rows"] == small["Actual Rows"] == 10
    assert buffers(large) <= 2 * buffers(small) + 50


async def test_route_with_nothing_to_do_is_cheap(ledger: asyncpg.Connection) -> None:
    """An idle relay's question touches a few pages, whatever has been routed, is scheduled, or cannot be routed."""
    await ledger.execute("DELETE FROM homing.outbox_events")
    await pile_up(ledger)
    plan = await explain(ledger, ROUTE, page=100, queues=["q"], epochs=[1])
    assert plan["Actual Rows"] == 0
    assert buffers(plan) <= 20


async def test_look_reads_the_due_rows_only(ledger: asyncpg.Connection) -> None:
    """Settled deliveries and those whose time has not come cost the look nothing."""
    await pile_up(ledger)
    plan = await explain(ledger, LOOK, queue="q", epoch=1, page=500, grace_seconds=10.0)
    assert plan["Actual Rows"] == 10
    assert "deliveries_unsettled" in indexes(plan)
    assert read_whole(plan) == set()
    assert buffers(plan) <= 60


async def test_look_of_a_new_epoch_reads_one_page(ledger: asyncpg.Connection) -> None:
    """After a loss a page costs what is in it, not what is unsettled altogether."""
    await pile_up(ledger)
    plan = await explain(ledger, LOOK, queue="q", epoch=2, page=100, grace_seconds=10.0)
    assert plan["Actual Rows"] == 100
    assert "deliveries_unsettled" in indexes(plan)
    assert read_whole(plan) == set()
    assert buffers(plan) <= 400


async def test_looked_finds_its_rows_by_key(ledger: asyncpg.Connection) -> None:
    """Writing down what a look found costs what was looked at."""
    await pile_up(ledger)
    arguments = await keys(ledger)
    plan = await explain(ledger, LOOKED, **arguments, gone=[True] * 10, epoch=1)
    assert plan["Actual Rows"] == 10
    assert indexes(plan) >= {"deliveries_pkey"}
    assert read_whole(plan) == set()


async def test_read_and_settle_find_their_rows_by_key(ledger: asyncpg.Connection) -> None:
    """The gate's read and the settle touch the rows they are about."""
    await pile_up(ledger)
    arguments = await keys(ledger)
    read = await explain(ledger, READ, event_ids=arguments["event_ids"], consumers=arguments["consumers"])
    assert read["Actual Rows"] == 10
    assert "deliveries_pkey" in indexes(read)
    assert read_whole(read) == set()
    event_id: UUID = arguments["event_ids"][0]
    settle = await explain(ledger, SETTLE, event_id=event_id, consumer="q.c", generation=1)
    assert settle["Actual Rows"] == 1
    assert indexes(settle) == {"deliveries_pkey"}
    assert buffers(settle) <= 30
