"""What really happened, read afterwards: from the database, from the partners' own ledgers, and from the workers' logs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from shop.loyalty.points import points_for
from shop.orders.port import pack
from shop.trial.customers import Purchase
from shop.trial.telling import delivered_again, dispatched_again, finished_runs

EVENTS_PER_ORDER = 2
DELIVERIES_PER_ORDER = 4

_PROGRESS = """
    SELECT count(*) FILTER (WHERE d.settled_at IS NOT NULL) AS settled, count(d.event_id) AS opened,
      count(DISTINCT e.id) FILTER (WHERE e.published_at IS NULL) AS unpublished, count(DISTINCT e.id) AS events
    FROM homing.outbox_events e LEFT JOIN homing.deliveries d ON d.event_id = e.id
    WHERE e.aggregate_id = ANY($1::text[])"""

_ORDERS = """
    SELECT o.id, o.total, o.address, o.weight_grams, p.status AS payment, l.points,
      (SELECT count(*) FROM shop.shipments s WHERE s.order_id = o.id) AS shipments,
      EXISTS (SELECT FROM shop.sent_emails m WHERE m.order_id = o.id AND m.kind = 'order-confirmation') AS emailed
    FROM shop.orders o LEFT JOIN shop.payments p ON p.order_id = o.id LEFT JOIN shop.loyalty_accounts l ON l.customer_id = o.customer_id
    WHERE o.id = ANY($1::uuid[])"""

_DELIVERIES = """
    SELECT d.outcome FROM homing.deliveries d
    JOIN homing.outbox_events e ON e.id = d.event_id WHERE e.aggregate_id = ANY($1::text[])"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the background work is."""

    settled: int
    opened: int
    unpublished: int
    events: int

    def finished(self, orders: int) -> bool:
        """Whether every delivery of that many orders exists and is settled."""
        everything = orders * DELIVERIES_PER_ORDER
        return self.unpublished == 0 and self.settled == self.opened == everything


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFacts:
    """One order in our database; `captures` and `parcels` are the partners' word, `messages` and `invoices` the mail server's.

    `parcels_due`: how many it has; `shipped`: whether our own tables have as many shipments.
    """

    id: UUID
    total: int
    captured: bool
    captures: int
    shipped: bool
    parcels: int
    parcels_due: int
    emailed: bool
    messages: int
    invoices: int
    points: int

    @property
    def points_right(self) -> bool:
        """Each customer orders once here, so the account must hold exactly the points of this order."""
        return self.points == points_for(self.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the verdict is made of. `redelivered`: deliveries that were started more than once; `redispatched`: jobs made again."""

    wanted: int
    orders: tuple[OrderFacts, ...]
    dead: int
    unsettled: int
    redelivered: int
    redispatched: int
    duplicates_skipped: int


async def read_progress(connection: "asyncpg.Connection[asyncpg.Record]", wanted: Sequence[Purchase]) -> Progress:
    """Look at the ledger."""
    row = await connection.fetchrow(_PROGRESS, [str(purchase.order_id) for purchase in wanted])
    if row is None:
        raise AssertionError("an aggregate without GROUP BY gives one row")
    return Progress(**row)


async def gather_facts(
    connection: "asyncpg.Connection[asyncpg.Record]",
    wanted: Sequence[Purchase],
    *,
    gateway: dict[str, Any],
    carrier: dict[str, Any],
    mailbox: dict[str, Any],
    logs: Path,
) -> Facts:
    """Put the witnesses together; the three ledgers are those of the partners."""
    order_ids = [purchase.order_id for purchase in wanted]
    rows = await connection.fetch(_ORDERS, order_ids)
    deliveries = await connection.fetch(_DELIVERIES, [str(order_id) for order_id in order_ids])
    parcels = Counter(shipment["reference"].rpartition("-")[0] for shipment in carrier["shipments"])
    orders = tuple(
        OrderFacts(
            id=row["id"],
            total=row["total"],
            captured=row["payment"] == "captured",
            captures=gateway["capturesByReference"].get(str(row["id"]), 0),
            shipped=row["shipments"] == len(pack(row["address"], row["weight_grams"])),
            parcels=parcels[str(row["id"])],
            parcels_due=len(pack(row["address"], row["weight_grams"])),
            emailed=row["emailed"],
            messages=mailbox["byKey"].get(f"order-confirmation-{row['id']}", 0),
            invoices=mailbox["byKey"].get(f"invoice-{row['id']}", 0),
            points=row["points"] or 0,
        )
        for row in rows
    )
    runs = list(finished_runs(logs))
    return Facts(
        wanted=len(wanted),
        orders=orders,
        dead=sum(row["outcome"] == "dead" for row in deliveries),
        unsettled=sum(row["outcome"] is None for row in deliveries),
        redelivered=len(delivered_again(runs)),
        redispatched=dispatched_again(logs),
        duplicates_skipped=sum(run["outcome"] == "duplicate" for run in runs),
    )
