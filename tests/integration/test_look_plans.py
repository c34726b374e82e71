"""What the sweep asks besides the look itself costs the same however much lies around."""

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from homing.operations.cancel import CANCEL
from homing.operations.events import PARKED
from homing.relay.dispatch import SETTLE_OTHERS
from homing.relay.sweep import MODES
from tests.integration.test_plans import explain, indexes, nodes

ROWS = 20_000


@pytest.fixture
async def ledger(database_url: str) -> Any:
    """Many events with a delivery each, a hundred routes of which one is another system's."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "INSERT INTO homing.outbox_events (id, topic, payload, published_at)"
        " SELECT gen_random_uuid(), 'topic.1', '{}', now() FROM generate_series(1, $1)",
        ROWS,
    )
    await connection.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, epoch, check_at)"
        " SELECT id, 'q.other', 'q', 'other', 1, now() FROM homing.outbox_events"
    )
    await connection.execute(
        "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode)"
        " SELECT 'topic.' || i, 'q.' || i, 'q', 'job' || i, 'tx' FROM generate_series(1, 100) i"
        " UNION ALL SELECT 'topic.1', 'q.other', 'q', 'other', 'foreign'"
    )
    await connection.execute("ANALYZE homing.outbox_events, homing.deliveries, homing.subscriptions")
    yield connection
    await connection.close()


async def test_statements_about_a_page_touch_a_page(ledger: asyncpg.Connection) -> None:
    """Modes, settling for others and cancelling read their rows by key; listing parked events reads those alone."""
    found = await ledger.fetch("SELECT event_id, consumer FROM homing.deliveries LIMIT 10")
    page: dict[str, Any] = {
        "event_ids": [row["event_id"] for row in found],
        "consumers": [row["consumer"] for row in found],
    }
    generations = [1] * len(found)
    plans = {
        "modes": await explain(ledger, MODES, **page),
        "settle_others": await explain(
            ledger, SETTLE_OTHERS, **page, generations=generations, results=[None] * len(found)
        ),
        "cancel": await explain(ledger, CANCEL, **page, generations=generations),
        "parked": await explain(ledger, PARKED, topic=None, since=UUID(int=0), after=None, page=100),
    }
    for name, plan in plans.items():
        scanned = {node.get("Relation Name") for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
        assert scanned <= {"subscriptions"}, (name, scanned)
    assert "outbox_events_pkey" in indexes(plans["modes"])
    assert "deliveries_pkey" in indexes(plans["settle_others"])
    assert "deliveries_pkey" in indexes(plans["cancel"])
    assert "outbox_events_parked" in indexes(plans["parked"])
