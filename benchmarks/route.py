"""What routing a page costs while the table grows: time and buffers of the relay's statement, from 10 thousand to 5 million published events.

    python -m benchmarks.route [--quick]

Around the published events lie 100 thousand scheduled and 100 thousand unroutable ones. At each size a relay asks in vain, and then
routes pages of 100 fresh events, each in a transaction that commits. `claim` is the part that finds the events. The bar is 1.3 times the
smallest size; the server is started here and takes about 4 GB of the temporary folder for the full run.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from homing.embedded import EmbeddedPostgres, fast_test_settings, stop_with_parent
from homing.relay.relay import ROUTE
from homing.schema import migrate

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
QUICK_SIZES = (10_000, 100_000, 500_000)
BESIDE = 100_000
PAGE = 100
ROUNDS = 60
WARM_UP = 10
ROUTED = 20_000
CHUNK = 500_000
BAR = 1.3

SERVER_SETTINGS = {**fast_test_settings, "autovacuum": "off", "max_wal_size": "4GB", "shared_buffers": "512MB"}

SUBSCRIBE = (
    "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) VALUES ('known', 'q.c', 'q', 'c', 'tx')"
)
RECORD = """
INSERT INTO homing.outbox_events (id, topic, payload, headers, created_at, available_at, published_at)
SELECT (lpad(to_hex((extract(epoch FROM n.at) * 1000)::bigint), 12, '0') || '7' || substr(n.random, 1, 3) || '8' || substr(n.random, 4, 15))::uuid,
  CASE $2 WHEN 'unroutable' THEN 'unknown-' || i % 50 ELSE 'known' END, jsonb_build_object('order', i), '{"trace": "0123456789abcdef"}', n.at,
  CASE $2 WHEN 'scheduled' THEN n.at + interval '1 day' ELSE n.at END, CASE $2 WHEN 'published' THEN n.at END
FROM generate_series(1, $1::integer) AS i, LATERAL (SELECT clock_timestamp() AS at, md5(random()::text || i) AS random) AS n
"""
SETTLE = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, epoch, check_at, outcome, settled_at)
SELECT id, 'q.c', 'q', 'c', 1, published_at, 'done', published_at FROM homing.outbox_events
WHERE published_at IS NOT NULL AND id > $1 ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians of one size: milliseconds and 8-KB buffers of a page routed, of its claim, and of a question in vain."""

    published: int
    page_ms: float
    page_buffers: float
    claim_ms: float
    claim_buffers: float
    idle_ms: float
    idle_buffers: float

    def __str__(self) -> str:
        return (
            f"{self.published:>10,}{self.page_ms:>10.2f} ms{self.page_buffers:>8.0f}{self.claim_ms:>11.2f} ms{self.claim_buffers:>8.0f}"
            f"{self.idle_ms:>11.3f} ms{self.idle_buffers:>8.0f}"
        )


async def main() -> None:
    """Fill, measure at each size, print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to half a million only")
    sizes = QUICK_SIZES if parser.parse_args().quick else SIZES
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder), settings=SERVER_SETTINGS) as server,
    ):
        stop_with_parent(server)
        connection = await asyncpg.connect(server.url())
        await migrate(connection, engine="redis")
        await connection.execute(SUBSCRIBE)
        for kind in ("scheduled", "unroutable"):
            await connection.execute(RECORD, BESIDE, kind)
        print(f"{'published':>10}{'page of 100, buffers':>21}{'its claim, buffers':>22}{'in vain, buffers':>22}")
        costs = [await cost_at(connection, size) for size in sizes]
        report(costs)
        await untidied(connection, server.url())
        await connection.close()


async def cost_at(connection: asyncpg.Connection, published: int) -> Cost:
    """Grow the table to so many published events, tidy it, and measure."""
    began = time.perf_counter()
    while (
        missing := published - await connection.fetchval("SELECT count(published_at) FROM homing.outbox_events")
    ) > 0:
        last = await connection.fetchval("SELECT id FROM homing.outbox_events ORDER BY id DESC LIMIT 1")
        await connection.execute(RECORD, min(missing, CHUNK), "published")
        await connection.execute(SETTLE, last)
    await connection.execute("VACUUM ANALYZE homing.outbox_events, homing.deliveries, homing.subscriptions")
    filled = time.perf_counter() - began
    idle = [await route(connection) for _ in range(ROUNDS)][WARM_UP:]
    pages = []
    for _ in range(ROUNDS):
        await connection.execute(RECORD, PAGE, "fresh")
        pages.append(await route(connection))
    cost = average(published, pages[WARM_UP:], idle)
    print(cost, f"  (filled in {filled:.0f} s)", flush=True)
    return cost


async def route(connection: asyncpg.Connection) -> dict[str, Any]:
    """Run the relay's statement, committed, and return its plan with what each part cost."""
    plan = await connection.fetchval("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + ROUTE.numbered, PAGE, ["q"], [1])
    found: dict[str, Any] = json.loads(plan)[0]["Plan"]
    return found


def average(published: int, pages: list[dict[str, Any]], idle: list[dict[str, Any]]) -> Cost:
    """The medians."""
    claims = [claim_of(page) for page in pages]
    return Cost(
        published,
        page_ms=median(page["Actual Total Time"] for page in pages),
        page_buffers=median(buffers(page) for page in pages),
        claim_ms=median(claim["Actual Total Time"] for claim in claims),
        claim_buffers=median(buffers(claim) for claim in claims),
        idle_ms=median(page["Actual Total Time"] for page in idle),
        idle_buffers=median(buffers(page) for page in idle),
    )


def median(values: Iterable[float]) -> float:
    """The median; zero of nothing."""
    return statistics.median([*values] or [0.0])


def claim_of(plan: dict[str, Any]) -> dict[str, Any]:
    """The part of the plan that finds and locks the events."""
    (claim,) = (child for child in plan["Plans"] if child.get("Subplan Name") == "CTE batch")
    found: dict[str, Any] = claim
    return found


def buffers(node: dict[str, Any]) -> int:
    read: int = node["Shared Hit Blocks"] + node["Shared Read Blocks"]
    return read


async def untidied(connection: asyncpg.Connection, url: str) -> None:
    """What a question in vain costs after much was routed: until a vacuum comes, and while an open transaction keeps it from tidying."""
    holder = await asyncpg.connect(url)
    for what, held in (("since the last vacuum", False), ("while a transaction stays open", True)):
        await connection.execute("VACUUM homing.outbox_events, homing.deliveries")
        if held:
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await holder.execute("SELECT 1")
        for _ in range(ROUTED // PAGE):
            await connection.execute(RECORD, PAGE, "fresh")
            await connection.execute(ROUTE.numbered, PAGE, ["q"], [1])
        idle = [await route(connection) for _ in range(ROUNDS)][WARM_UP:]
        cost = average(0, [], idle)
        print(f"in vain, {ROUTED:,} routed {what}: {cost.idle_ms:.2f} ms, {cost.idle_buffers:.0f} buffers", flush=True)
    await holder.close()


def report(costs: list[Cost]) -> None:
    """How much dearer the largest size is than the smallest."""
    first, last = costs[0], costs[-1]
    for name in ("claim_buffers", "claim_ms", "page_buffers", "page_ms", "idle_buffers", "idle_ms"):
        ratio = getattr(last, name) / getattr(first, name)
        print(f"{name:<15} × {ratio:.2f}{'' if ratio <= BAR else f'  more than {BAR}'}")


if __name__ == "__main__":
    asyncio.run(main())
