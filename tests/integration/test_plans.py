"""The statements that run all day use their indexes, and cost the same however much lies around."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from homing.embedded import EmbeddedPostgres
from homing.ledger.statements import LOOK, LOOKED, READ, SETTLE, as_rows
from homing.operations.explaining import EXPLAINED_DELIVERIES, EXPLAINED_EVENT, FREE_ROW
from homing.operations.jobs import OPEN_JOBS
from homing.relay.dispatch import UNDISPATCHED
from homing.relay.families import WAITING_PARENTS
from homing.relay.relay import ROUTE
from homing.relay.unroutable import UNROUTABLE
from homing.schema.statement import Statement
from homing.upkeep.walks import CANDIDATES, PRUNE
from homing.worker.flows import CHILDREN
from tests.own_servers import fresh_ledger

BACKLOG = 20_000
"""Rows that the statements must not touch: published, scheduled and unroutable events, settled and later deliveries."""

TOPICS = 50
"""Topics without a consumer."""

SUBSCRIBE = "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) SELECT $1, $2, 'q', 'c', 'tx'"


@pytest.fixture(scope="module")
def _crowded_url(postgres_server: EmbeddedPostgres) -> str:
    url = fresh_ledger(postgres_server)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves pytest-asyncio's own loop alone
        runner.run(_fill(url))
    return url


@pytest.fixture
async def ledger(_crowded_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Ten events to route and ten deliveries to look at among much else; what a test does is rolled back."""
    connection = await asyncpg.connect(_crowded_url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


async def _fill(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(SUBSCRIBE, "known", "q.c")
        await connection.execute(SUBSCRIBE, "later", "q.c")
        await connection.execute(
            "INSERT INTO homing.queues (queue, epoch, changed_at) VALUES ('q', 1, now() - interval '1 h')"
        )
        await _events(connection, 10, "'known'", "now() - interval '1 s'", "NULL")
        await _deliveries(connection, 10, "NULL", "NULL", "now() - interval '1 s'")
        await pile_up(connection)
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
    await _events(connection, BACKLOG, "'later'", "now() + interval '1 day'", "NULL")
    await _events(connection, BACKLOG, f"'unknown' || i % {TOPICS}", "now() - interval '1 day'", "NULL")
    await _deliveries(connection, BACKLOG, "'done'", "now()", "now() - interval '1 day'")
    await _deliveries(connection, BACKLOG, "NULL", "NULL", "now() + interval '1 day'")
    await connection.execute(
        "VACUUM ANALYZE homing.outbox_events, homing.deliveries, homing.subscriptions, homing.queues"
    )


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
    plan = await explain(ledger, ROUTE, page=100, queues=["q"], epochs=[1])
    assert plan["Actual Rows"] == 10
    assert "outbox_events_unpublished" in indexes(plan)
    assert read_whole(plan) == set()
    (claim,) = (node for node in nodes(plan) if node.get("Subplan Name") == "CTE batch")
    assert buffers(claim) <= 40
    assert buffers(plan) <= 200


async def test_route_with_nothing_to_do_is_cheap(ledger: asyncpg.Connection) -> None:
    """An idle relay's question touches a few pages, whatever has been routed, is scheduled, or cannot be routed."""
    await ledger.execute("DELETE FROM homing.subscriptions WHERE topic = 'known'")
    plan = await explain(ledger, ROUTE, page=100, queues=["q"], epochs=[1])
    assert plan["Actual Rows"] == 0
    assert buffers(plan) <= 20


async def test_look_reads_the_due_rows_only(ledger: asyncpg.Connection) -> None:
    """Settled deliveries and those whose time has not come cost the look nothing."""
    plan = await explain(ledger, LOOK, queue="q", epoch=1, page=500, grace_seconds=10.0)
    assert plan["Actual Rows"] == 10
    assert "deliveries_unsettled" in indexes(plan)
    assert read_whole(plan) == set()
    assert buffers(plan) <= 60


async def test_look_of_a_new_epoch_reads_one_page(ledger: asyncpg.Connection) -> None:
    """After a loss a page costs what is in it, not what is unsettled altogether."""
    plan = await explain(ledger, LOOK, queue="q", epoch=2, page=100, grace_seconds=10.0)
    assert plan["Actual Rows"] == 100
    assert "deliveries_unsettled" in indexes(plan)
    assert read_whole(plan) == set()
    assert buffers(plan) <= 400


async def test_looked_finds_its_rows_by_key(ledger: asyncpg.Connection) -> None:
    """Writing down what a look found costs what was looked at."""
    arguments = await keys(ledger)
    plan = await explain(ledger, LOOKED, **arguments, gone=[True] * 10, epoch=1)
    assert plan["Actual Rows"] == 10
    assert indexes(plan) >= {"deliveries_pkey"}
    assert read_whole(plan) == set()


async def test_read_and_settle_find_their_rows_by_key(ledger: asyncpg.Connection) -> None:
    """The gate's read and the settle touch the rows they are about."""
    arguments = await keys(ledger)
    pairs = zip(arguments["event_ids"], arguments["consumers"], strict=True)
    rows = as_rows([{"event_id": event_id, "consumer": consumer} for event_id, consumer in pairs])
    read = await explain(ledger, READ, rows=rows)
    assert read["Actual Rows"] == 10
    assert "deliveries_pkey" in indexes(read)
    assert read_whole(read) == set()
    event_id: UUID = arguments["event_ids"][0]
    settle = await explain(ledger, SETTLE, event_id=event_id, consumer="q.c", generation=1)
    assert settle["Actual Rows"] == 1
    assert indexes(settle) == {"deliveries_pkey"}
    assert buffers(settle) <= 30


async def test_what_people_ask_about_one_delivery_is_found_by_key(ledger: asyncpg.Connection) -> None:
    """Explaining an event or a job, asking whether its row is held, and which jobs are open: rows by key, whatever lies around."""
    arguments = await keys(ledger)
    event_id: UUID = arguments["event_ids"][0]
    for statement, values in (
        (EXPLAINED_DELIVERIES, {"event_id": event_id, "consumer": None}),
        (EXPLAINED_DELIVERIES, {"event_id": event_id, "consumer": "q.c"}),
        (EXPLAINED_EVENT, {"event_id": await ledger.fetchval("SELECT id FROM homing.outbox_events LIMIT 1")}),
        (FREE_ROW, {"event_id": event_id, "consumer": "q.c"}),
        (OPEN_JOBS, arguments),
    ):
        plan = await explain(ledger, statement, **values)
        assert plan["Actual Rows"] >= 1
        assert read_whole(plan) <= {"dead_letters"}, statement.name  # no letter lies in this ledger
        assert buffers(plan) <= 100


async def test_a_crowded_topic_holds_up_no_other(database_url: str) -> None:
    """One event of a quiet topic is routed by the next statement, however many older ones of another topic wait."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(SUBSCRIBE, "known", "q.c")
    await connection.execute(SUBSCRIBE, "quiet", "q.quiet")
    await _events(connection, BACKLOG, "'known'", "now() - interval '1 day'", "NULL")
    await _events(connection, 1, "'quiet'", "now()", "NULL")
    routed = await connection.fetch(ROUTE.numbered, *ROUTE.arguments({"page": 100, "queues": ["q"], "epochs": [1]}))
    await connection.close()
    assert sorted(row["consumer"] for row in routed) == ["q.c"] * 100 + ["q.quiet"]


async def test_counting_the_unroutable_reads_what_it_counts(ledger: asyncpg.Connection) -> None:
    """The count of events that nobody consumes steps over topics that have a consumer, and over what was routed."""
    plan = await explain(ledger, UNROUTABLE, most=10)
    assert plan["Actual Rows"] == TOPICS
    assert read_whole(plan) == set()
    assert buffers(plan) <= 20 * TOPICS


async def test_undispatched_finds_its_rows_by_key(ledger: asyncpg.Connection) -> None:
    """Taking back deliveries whose jobs were refused costs what is taken back."""
    plan = await explain(ledger, UNDISPATCHED, **await keys(ledger))
    assert "deliveries_pkey" in indexes(plan)
    assert read_whole(plan) == set()
    assert buffers(plan) <= 400


async def test_what_parents_ask_of_their_children_is_found_by_key(ledger: asyncpg.Connection) -> None:
    """A run reads the rows of its children, and a relay those of waiting parents: as many as there are, whatever lies around."""
    arguments = await keys(ledger)
    children = await explain(ledger, CHILDREN, event_ids=arguments["event_ids"])
    parents = await explain(ledger, WAITING_PARENTS, **arguments)
    for plan in (children, parents):
        assert plan["Actual Rows"] == 10
        assert "deliveries_pkey" in indexes(plan)
        assert read_whole(plan) <= {"dead_letters"}  # no letter lies in this ledger
        assert buffers(plan) <= 150


async def test_prune_walks_the_events_in_order_and_finds_the_rest_by_key(ledger: asyncpg.Connection) -> None:
    """A batch of old events is found along the primary key; their deliveries and letters are found by theirs."""
    first, last = UUID(int=0), UUID(int=2**128 - 1)
    candidates = await explain(ledger, CANDIDATES, after=first, before=last, page=100)
    assert candidates["Actual Rows"] == 100
    assert indexes(candidates) == {"outbox_events_pkey"}
    assert buffers(candidates) <= 1500
    rows = await ledger.fetch("SELECT id FROM homing.outbox_events WHERE published_at IS NOT NULL ORDER BY id LIMIT 20")
    windows = {"events_seconds": 60.0, "inbox_seconds": 60.0, "letters_seconds": 60.0}
    pruned = await explain(ledger, PRUNE, ids=[row["id"] for row in rows], **windows)
    assert indexes(pruned) >= {"outbox_events_pkey", "deliveries_pkey"}
    assert read_whole(pruned) <= {"dead_letters"}  # which is empty here
