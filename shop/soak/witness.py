"""How far the shop is while its servers come and go, and whether everything is at rest."""

from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shop.trial.goods import GOODS

CONNECT_SECONDS = 5.0

_STANDING = """
    SELECT (SELECT count(*) FROM homing.outbox_events WHERE published_at IS NULL) AS unpublished,
      (SELECT count(*) FROM homing.deliveries WHERE settled_at IS NULL) AS unsettled,
      (SELECT count(*) FROM homing.dead_letters WHERE closed_at IS NULL) AS dead,
      (SELECT count(*) FROM shop.orders) AS orders,
      (SELECT count(*) FROM shop.orders o JOIN shop.payments p ON p.order_id = o.id AND p.status = 'captured'
        JOIN shop.loyalty_accounts l ON l.customer_id = o.customer_id
        JOIN shop.sent_emails m ON m.order_id = o.id AND m.kind = 'order-confirmation'
        JOIN shop.sent_emails i ON i.order_id = o.id AND i.kind = 'invoice') AS complete"""

_SHELVES = """
    SELECT s.sku, s.available + coalesce((SELECT sum(quantity) FROM shop.order_lines l WHERE l.sku = s.sku), 0)::bigint AS pieces
    FROM shop.stock s"""

_LETTERS = """
    SELECT job_id, kind, error ->> 'type' AS type, left(error ->> 'message', 200) AS message, attempts_made, failed_at
    FROM homing.dead_letters WHERE closed_at IS NULL ORDER BY id"""

_UNSETTLED = """
    SELECT d.event_id, d.consumer, d.generation, d.epoch, q.epoch AS queue_epoch, d.opened_at, d.check_at, d.vanished, e.aggregate_id
    FROM homing.deliveries d JOIN homing.queues q USING (queue) LEFT JOIN homing.outbox_events e ON e.id = d.event_id
    WHERE d.settled_at IS NULL ORDER BY d.opened_at"""

_ROWS = "SELECT (SELECT count(*) FROM shop.orders) AS orders, (SELECT count(*) FROM homing.outbox_events) AS events"

AT_REST = ("wait", "paused", "active", "delayed", "prioritized", "waiting-children")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the run stands. `complete`: orders that are paid, confirmed, shipped, invoiced and rewarded, as our own tables say."""

    unpublished: int
    unsettled: int
    dead: int
    orders: int
    complete: int

    def finished(self, orders: int) -> bool:
        """Whether so many orders are through and the ledger waits for nothing."""
        return self.unpublished == self.unsettled == 0 and self.complete >= orders

    def __str__(self) -> str:
        return f"{self.orders} orders, {self.complete} complete, {self.unpublished} events to route, {self.unsettled} deliveries to settle"


@dataclass(frozen=True, slots=True)
class Rows:
    """How many orders there are, and how many events are left of theirs."""

    orders: int
    events: int


async def look(database_url: str) -> Standing | None:
    """Where the run stands; none while PostgreSQL does not answer."""
    try:
        connection = await asyncpg.connect(database_url, timeout=CONNECT_SECONDS, command_timeout=CONNECT_SECONDS)
        try:
            row = await connection.fetchrow(_STANDING)
        finally:
            connection.terminate()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None
    return None if row is None else Standing(**row)


async def jobs_left(redis_url: str) -> int | None:
    """Jobs that wait or run, in all queues, but for the next tick of each schedule; none while Valkey does not answer."""
    try:
        async with Redis.from_url(redis_url, decode_responses=True) as client:
            queues = [str(meta).removesuffix("meta") for meta in await client.keys("shop:*:meta")]
            lists = [await client.llen(queue + part) for queue in queues for part in AT_REST[:3]]
            sets = [await client.zcard(queue + part) for queue in queues for part in AT_REST[3:]]
            ticks = [await client.zcard(queue + "repeat") for queue in queues]
    except (OSError, RedisError):
        return None
    return max(0, sum(lists) + sum(sets) - sum(ticks))


async def missing_pieces(connection: "asyncpg.Connection[asyncpg.Record]", pieces: int) -> Mapping[str, int]:
    """What neither the shelves nor the orders account for, of `pieces` of everything at the beginning; empty when all is well."""
    shelves = {row["sku"]: row["pieces"] for row in await connection.fetch(_SHELVES)}
    return {sku: pieces - shelves.get(sku, 0) for sku in GOODS if shelves.get(sku, 0) != pieces}


async def count_rows(connection: "asyncpg.Connection[asyncpg.Record]") -> Rows:
    """Count them."""
    row = await connection.fetchrow(_ROWS)
    if row is None:
        raise AssertionError("two counts give one row")
    return Rows(**row)


async def open_ends(connection: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    """Every open dead letter and every unsettled delivery, one line each."""
    letters = [f"dead letter {dict(row)}" for row in await connection.fetch(_LETTERS)]
    return letters + [f"unsettled delivery {dict(row)}" for row in await connection.fetch(_UNSETTLED)]
