"""A ledger with a row of every kind, each with the worst text that its columns take: for whatever shows rows to people."""

from uuid import UUID

import psycopg
from psycopg.types.json import Json

from homing.config.settings import Settings

HOSTILE = "\x1b[31mred\x1b[0m\x1b]0;title\x07 \x9b2J [red]markup[/red] [link=x] :bomb: \r\nnext\tline \u202e <script>alert(1)</script>\"'><img src=x onerror=alert(1)> {{7*7}}"
HUGE = HOSTILE + "x" * 100_000
MEGABYTE = HOSTILE + "x" * 1_000_000
NAME = HOSTILE + "y" * 1_500
"""As long a name as an index of the ledger can hold."""

EVENT = UUID("01900000-0000-7000-8000-000000000001")
PARKED = UUID("01900000-0000-7000-8000-000000000002")
NOBODYS = UUID("01900000-0000-7000-8000-000000000003")


def poison(settings: Settings) -> None:
    """A row of every kind, with the worst text that its columns take."""
    with psycopg.connect(settings.psycopg_dsn, autocommit=True) as sql:
        sql.execute(
            "INSERT INTO homing.outbox_events (id, topic, aggregate_id, payload, headers, published_at, parked_error, available_at) VALUES"
            " (%(a)s, %(name)s, %(huge)s, %(json)s, %(json)s, now(), NULL, now()),"
            " (%(b)s, %(name)s, %(huge)s, %(json)s, %(json)s, NULL, %(mega)s, now()),"
            " (%(c)s, %(name)s, %(huge)s, %(json)s, %(json)s, NULL, NULL, now() - interval '1 min')",
            {
                "a": EVENT,
                "b": PARKED,
                "c": NOBODYS,
                "name": NAME,
                "huge": HUGE,
                "mega": MEGABYTE,
                "json": hostile_json(),
            },
        )
        sql.execute(
            "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at) VALUES"
            " (%(a)s, %(name)s, %(short)s, %(huge)s, NULL, NULL), (%(a)s, 'q.dead', %(short)s, %(huge)s, 'dead', now())",
            {"a": EVENT, "name": NAME, "short": HOSTILE, "huge": HUGE},
        )
        sql.execute(
            "INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)"
            " VALUES (%s, %s, 1, %s, %s, %s, 'failed', %s, %s, %s, 3)",
            (
                EVENT,
                NAME,
                HUGE,
                HUGE,
                HUGE,
                hostile_json(),
                Json({"class": HUGE, "text": MEGABYTE, "stack": HUGE}),
                NAME,
            ),
        )
        sql.execute(
            "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode, aliases) VALUES ('t', %s, %s, %s, 'tx', %s)",
            (NAME, HUGE, HUGE, [HUGE]),
        )
        sql.execute("INSERT INTO homing.queues (queue) VALUES ('plain')")
        sql.execute(
            "INSERT INTO homing.operator_actions (actor, action, subject, affected, reason) VALUES (%s, %s, %s, 1, %s)",
            (HUGE, HUGE, hostile_json(), HUGE),
        )
        sql.execute(
            "INSERT INTO homing.workers (id, host, pid, version, role, consumers, queues, state) VALUES"
            " (gen_random_uuid(), %s, 1, %s, 'worker', %s, %s, %s)",
            (HUGE, HUGE, [NAME], [HUGE], hostile_json()),
        )
        sql.execute(
            "INSERT INTO homing.redrive_campaigns"
            " (id, filter, started_by, reason, rate, canary, state, last_letter, matched, refused, ended_at, end_reason)"
            " VALUES (gen_random_uuid(), %s, %s, %s, 1e308, 1, 'stopped', 1, 9, %s, now(), %s)",
            (Json({"consumer": HOSTILE, "error_text": HUGE}), HUGE, HUGE, Json({HOSTILE: 7}), MEGABYTE),
        )
        sql.execute(
            "INSERT INTO homing.schedules (queue, schedule, source, job_name, data, options, cron, zone, next_ms, last_ms, ticks)"
            " VALUES ('plain', %s, 'engine', %s, %s, %s, %s, %s, %s, %s, %s)",
            (HOSTILE, HUGE, HUGE, HUGE, HUGE, HOSTILE, 2**62, -(2**62), 2**62),
        )


def hostile_json() -> Json:
    """An object whose keys and values are hostile."""
    return Json({HOSTILE: MEGABYTE, "traceId": HOSTILE})
