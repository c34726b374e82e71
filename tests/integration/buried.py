"""Dead deliveries with their letters, written by hand: many at once, without a worker that would have to fail first.

Their events are older than any retention.
"""

from typing import Any

import asyncpg

BURY = """
WITH e AS (
  INSERT INTO homing.outbox_events (id, topic, payload, headers, published_at)
  SELECT overlay(gen_random_uuid()::text PLACING '00000000-0000-7' FROM 1)::uuid, $1, jsonb_build_object('number', i), '{"traceId": "t"}', now() FROM generate_series($2::int, $3::int) i
  RETURNING id, payload),
d AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)
  SELECT id, $4, split_part($4, '.', 1), split_part($4, '.', 2), 'dead', now() FROM e)
INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT e.id, $4, 1, split_part($4, '.', 1), split_part($4, '.', 2), e.id || '.1.' || $4, $5,
  jsonb_build_object('payload', e.payload), jsonb_build_object('class', $6::text, 'text', $7::text), $8, 3
FROM e ORDER BY e.payload RETURNING id
"""


async def bury(
    sql: asyncpg.Connection,
    number: int,
    *,
    topic: str = "dead.asked",
    first: int = 0,
    consumer: str = "work.do",
    kind: str = "failed",
    error_class: str = "OutOfOrder",
    text: str = "the partner said 503",
    fingerprint: str = "f1",
) -> list[int]:
    """So many dead deliveries, their payloads numbered from `first`; the ids of their letters, in that order."""
    rows = await sql.fetch(BURY, topic, first, first + number - 1, consumer, kind, error_class, text, fingerprint)
    return [row["id"] for row in rows]


async def letter(sql: asyncpg.Connection, letter_id: int) -> dict[str, Any]:
    """A letter together with its delivery."""
    row = await sql.fetchrow(
        "SELECT l.closed_as, l.closed_by, l.closed_why, l.campaign, l.event_id, d.outcome, d.generation, d.epoch, d.settled_at"
        " FROM homing.dead_letters l LEFT JOIN homing.deliveries d USING (event_id, consumer) WHERE l.id = $1",
        letter_id,
    )
    assert row is not None
    return dict(row)


async def actions(sql: asyncpg.Connection) -> list[tuple[str, str, int, str | None]]:
    """What people did: actor, action, how many, why."""
    rows = await sql.fetch("SELECT actor, action, affected, reason FROM homing.operator_actions ORDER BY id")
    return [tuple(row) for row in rows]
