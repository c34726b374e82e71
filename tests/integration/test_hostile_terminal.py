"""Whatever stands in the ledger's rows: no command says anything that a terminal obeys, or more than a person can read."""

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Json
from redis import Redis

from homing.cli.exits import Exit
from homing.config.settings import Settings
from tests.integration.commands import Commands

HOSTILE = "\x1b[31mred\x1b[0m\x1b]0;title\x07 \x9b2J [red]markup[/red] [link=x] :bomb: \r\nnext\tline \u202e"
HUGE = HOSTILE + "x" * 100_000
MEGABYTE = HOSTILE + "x" * 1_000_000
NAME = HOSTILE + "y" * 1_500
"""As long a name as an index of the ledger can hold."""

EVENT = UUID("01900000-0000-7000-8000-000000000001")
PARKED = UUID("01900000-0000-7000-8000-000000000002")
NOBODYS = UUID("01900000-0000-7000-8000-000000000003")

MOST_SAID = 60_000
"""Characters that any list may say of a handful of rows."""

VERBS = (
    "status",
    "top --once --every 100ms",
    "events list",
    "events list --state unpublished",
    "events list --state parked",
    f"events show {EVENT}",
    f"events show {PARKED}",
    "consumers list",
    "workers list",
    "actions list",
    "deadletters list",
    "deadletters groups",
    "audit",
)


@pytest.fixture
def _poisoned(settings: Settings) -> None:
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


def hostile_json() -> Json:
    return Json({HOSTILE: MEGABYTE, "traceId": HOSTILE})


def obeyed(text: str) -> set[str]:
    """Control characters that a terminal would act upon; tabs and line ends are the program's own."""
    return {letter for letter in text if (ord(letter) < 32 and letter != "\n") or 0x7F <= ord(letter) < 0xA0}


@pytest.mark.usefixtures("_poisoned")
def test_no_row_breaks_a_terminal(command: Commands, redis_url: str, redis_prefix: str) -> None:
    """Every list and show ends with 0 (or 1, where it judges), says no control character and little, and JSON says all as valid JSON."""
    with Redis.from_url(redis_url) as client:
        client.hset(f"{redis_prefix}:plain:meta", "paused", "1")
    complaints: dict[str, Any] = {}
    for verb in VERBS:
        said = command(*verb.split())
        text = said.out + said.err
        if said.code not in (Exit.DONE, Exit.FOUND_WRONG) or obeyed(text) or len(text) > MOST_SAID:
            complaints[verb] = (said.code, obeyed(text), len(text), text[:300])
        assert "Traceback" not in text, verb
        told = command("--json", *verb.split())
        if obeyed(told.out):
            complaints[f"--json {verb}"] = obeyed(told.out)
        json.loads(told.out)
        assert verb.startswith("top") or "\N{REPLACEMENT CHARACTER}[31mred" in text, verb
    assert complaints == {}
    assert obeyed(command("events", "show", str(EVENT), "--payload").out) == set()
