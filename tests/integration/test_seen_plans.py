"""What people list and follow is read by index, and costs a bounded number of pages, however much lies around."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from homing.deadletters.filters import Filter
from homing.deadletters.letters import GROUPS, HISTOGRAM, NEWEST_GROUPS
from homing.embedded import EmbeddedPostgres
from homing.ids import first_id_at
from homing.operations.actions import ACTIONS, NEWEST
from homing.operations.events import EVENT, EVENT_DEATHS, EVENTS, LINEAGE, PARKED, UNPUBLISHED, UNROUTED
from homing.operations.following import TAIL_ACTIONS, TAIL_LETTERS, TAIL_SETTLED
from homing.operations.pace import DIED_SINCE, OPEN_WORK, SETTLED_SINCE, STILL_OPEN
from homing.operations.search import DELIVERIES_OF, SEARCH_DELIVERIES, SEARCH_EVENTS
from homing.operations.status import FAILING, TOTALS
from homing.schema.statement import Statement
from tests.integration.test_plans import buffers, explain, indexes, nodes, read_whole
from tests.own_servers import fresh_ledger

ROWS = 10_000
ZERO, LAST = UUID(int=0), UUID(int=2**128 - 1)
NOW = datetime.now(UTC)

FILL = """
INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) VALUES ('known', 'q.c', 'q', 'c', 'tx');
-- by their ids older than a minute
INSERT INTO homing.outbox_events (id, topic, payload, published_at)
SELECT overlay(gen_random_uuid()::text PLACING '01900000-0000-7' FROM 1)::uuid, 'known', '{}', now() FROM generate_series(1, 10000);
INSERT INTO homing.outbox_events (id, topic, payload, available_at)
SELECT gen_random_uuid(), 'known', '{}', now() + interval '1 d' FROM generate_series(1, 10000);
INSERT INTO homing.outbox_events (id, topic, payload)
SELECT gen_random_uuid(), 'unknown' || i % 50, '{}' FROM generate_series(1, 10000) i;
INSERT INTO homing.outbox_events (id, topic, payload, parked_error)
SELECT gen_random_uuid(), 'parked' || i % 50, '{}', 'no object' FROM generate_series(1, 2000) i;
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)
SELECT id, 'q.c', 'q', 'c', 'done', now() FROM homing.outbox_events WHERE published_at IS NOT NULL;
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name)
SELECT overlay(gen_random_uuid()::text PLACING '01900000-0000-7' FROM 1)::uuid, 'q.c', 'q', 'c' FROM generate_series(1, 10000);
INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT gen_random_uuid(), 'q.c', 1, 'q', 'c', 'x', 'failed', '{}', '{}', 'f', 1 FROM generate_series(1, 10000);
INSERT INTO homing.operator_actions (actor, action, subject, affected)
SELECT 'a', 'prune', '{}', 1 FROM generate_series(1, 10000);
"""
VACUUM = "VACUUM ANALYZE homing.outbox_events, homing.deliveries, homing.dead_letters, homing.operator_actions, homing.subscriptions"


@pytest.fixture(scope="module")
def _crowded_url(postgres_server: EmbeddedPostgres) -> str:
    url = fresh_ledger(postgres_server)

    async def fill() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(FILL)
        await connection.execute(VACUUM)
        await connection.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves pytest-asyncio's own loop alone
        runner.run(fill())
    return url


@pytest.fixture
async def ledger(_crowded_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(_crowded_url)
    yield connection
    await connection.close()


LATELY = first_id_at(NOW - timedelta(minutes=1))
PAGE = {"page": 50}
UNROUTED_ANY = {"topic": None, "since": None, "after": None, **PAGE}
ASKED: Mapping[str, tuple[Statement, dict[str, Any], set[str], int]] = {
    "newest events": (
        EVENTS,
        {"topic": None, "published": None, "since": ZERO, "before": LAST, "walk": 50, **PAGE},
        {"outbox_events_pkey"},
        200,
    ),
    "events of a topic": (
        EVENTS,
        {"topic": "rare", "published": True, "since": ZERO, "before": LAST, "walk": 1000, **PAGE},
        {"outbox_events_pkey"},
        3000,
    ),
    "unpublished": (UNPUBLISHED, {"after": None, **PAGE}, {"outbox_events_unpublished"}, 200),
    "scheduled": (UNROUTED, {"state": "scheduled", **UNROUTED_ANY}, {"outbox_events_unpublished"}, 1000),
    "unroutable": (UNROUTED, {"state": "unroutable", **UNROUTED_ANY}, {"outbox_events_unpublished"}, 4000),
    "of one topic": (
        UNROUTED,
        {"state": "unpublished", **UNROUTED_ANY, "topic": "known"},
        {"outbox_events_unpublished"},
        200,
    ),
    "parked": (PARKED, {"topic": None, "since": ZERO, "after": None, **PAGE}, {"outbox_events_parked"}, 300),
    "one event": (EVENT, {"event_id": ZERO, "payload": False}, {"outbox_events_pkey"}, 10),
    "its deliveries": (LINEAGE, {"event_id": ZERO}, {"deliveries_pkey"}, 10),
    "their deaths": (EVENT_DEATHS, {"event_id": ZERO, "most": 1000}, {"dead_letters_history"}, 10),
    "search of a trace": (
        SEARCH_EVENTS,
        {
            **dict.fromkeys(("topic", "aggregate_id", "path", "value")),
            "trace_id": "nobody's",
            "before": LAST,
            "walk": 1000,
            **PAGE,
        },
        {"outbox_events_pkey"},
        3000,
    ),
    "search of a field": (
        SEARCH_EVENTS,
        {
            **dict.fromkeys(("topic", "aggregate_id", "trace_id")),
            "path": ["a", "b"],
            "value": "1",
            "before": LAST,
            "walk": 1000,
            **PAGE,
        },
        {"outbox_events_pkey"},
        3000,
    ),
    "search of a consumer": (
        SEARCH_DELIVERIES,
        {"consumer": "rare", "outcome": None, "before": LAST, "before_consumer": "", "walk": 1000, **PAGE},
        {"deliveries_pkey"},
        3000,
    ),
    "deliveries of events": (DELIVERIES_OF, {"event_ids": [ZERO] * 50, "most": 2000}, {"deliveries_pkey"}, 300),
    "actions": (
        ACTIONS,
        {"actor": None, "action": None, "since": None, "before": NEWEST, "walk": 50, **PAGE},
        {"operator_actions_pkey"},
        300,
    ),
    "newest groups of letters": (
        NEWEST_GROUPS,
        {**Filter().parameters(), "walk": 500, "most": 50},
        {"dead_letters_unclosed", "dead_letters_pkey"},
        200,
    ),
    "when letters died": (
        HISTOGRAM,
        {"fingerprints": ["f"], "span_seconds": 86_400.0, "slots": 48, "walk": 500},
        {"dead_letters_pkey"},
        100,
    ),
    "failing": (FAILING, {"since_seconds": 3600.0, "walk": 500, "page": 20}, {"dead_letters_pkey"}, 100),
    "totals": (TOTALS, {"most": 1000}, set(), 600),
    "open work": (OPEN_WORK, {"most": 1000}, {"deliveries_by_consumer", "dead_letters_pkey"}, 600),
    "still open": (
        STILL_OPEN,
        {"consumers": ["q.c"], "horizons": [NOW + timedelta(days=1)], "most": 1000},
        {"deliveries_by_consumer"},
        600,
    ),
    "settled since": (SETTLED_SINCE, {"first": LATELY, "since": NOW, "walk": 20_000}, {"deliveries_pkey"}, 10),
    "died since": (DIED_SINCE, {"letter": ROWS}, {"dead_letters_pkey"}, 10),
    "tail of deliveries": (
        TAIL_SETTLED,
        {"first": LATELY, "since": NOW, "consumer": None, "queue": None, "walk": 20_000, **PAGE},
        {"deliveries_pkey"},
        10,
    ),
    "tail of letters": (
        TAIL_LETTERS,
        {"letter": ROWS, "consumer": None, "queue": None, **PAGE},
        {"dead_letters_pkey"},
        20,
    ),
    "tail of actions": (TAIL_ACTIONS, {"seen": ROWS, **PAGE}, {"operator_actions_pkey"}, 20),
}
"""The question, its values, the indexes that answer it, and the pages that it may touch (a few times what it does)."""


async def test_lists_and_tails_are_read_by_index_at_a_bounded_cost(ledger: asyncpg.Connection) -> None:
    """None reads a large table from end to end, each uses its index, and none touches more pages than a page of its result needs."""
    wrong = {}
    for name, (statement, values, wanted, most) in ASKED.items():
        plan = await explain(ledger, statement, **values)
        whole = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
        large = (
            whole - {"subscriptions"} if name != "totals" else set()
        )  # those count a bounded part of whatever comes first
        if large or not wanted <= indexes(plan) or buffers(plan) > most:
            wrong[name] = (large, indexes(plan), buffers(plan))
    assert wrong == {}


async def test_a_dry_run_reads_no_more_than_what_is_open(ledger: asyncpg.Connection) -> None:
    """However many letters a campaign would take, their events and deliveries are looked up one by one: those tables are never read whole."""
    plan = await explain(ledger, GROUPS, **Filter().parameters(), most=50)
    assert read_whole(plan) <= {"dead_letters"}
    assert {"outbox_events_pkey", "deliveries_pkey"} <= indexes(plan)
