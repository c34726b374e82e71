"""`homing events`, `consumers`, `workers` and `actions` as people and programs use them, on a ledger without any process."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from homing.cli.exits import Exit
from homing.config.settings import Settings
from homing.ledger.ledger import Ledger
from homing.operations.events import EventState, list_events
from tests.integration.commands import Commands

Sql = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def sql(settings: Settings) -> Iterator[Sql]:
    with psycopg.connect(settings.psycopg_dsn, autocommit=True) as connection:
        yield connection


def subscribe(sql: Sql, consumer: str, *topics: str) -> None:
    queue, _, job = consumer.partition(".")
    for topic in topics:
        sql.execute(
            "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) VALUES (%s, %s, %s, %s, 'tx')",
            (topic, consumer, queue, job),
        )


RECORD = """
INSERT INTO homing.outbox_events (id, topic, payload, headers, available_at, published_at, parked_error)
SELECT (regexp_replace(lpad(to_hex(1767225600000 + i), 12, '0'), '(.{{8}})(.{{4}})', '\\1-\\2') || '-7' || substr(gen_random_uuid()::text, 16))::uuid,
  %s, '{{"secret": 1}}', '{{"traceId": "abc"}}', {due} - make_interval(secs => %s - i), {routed}, {parked}
FROM generate_series(1, %s) i RETURNING id
"""


def record(
    sql: Sql, number: int, topic: str, *, due: str = "now()", routed: str = "NULL", parked: str = "NULL"
) -> list[UUID]:
    """Events of the first milliseconds of 2026, their ids and times growing, the first one first."""
    statement = RECORD.format(due=due, routed=routed, parked=parked)
    return [row[0] for row in sql.execute(statement.encode(), (topic, number, number)).fetchall()]


Pages = Callable[..., list[UUID]]


@pytest.fixture
def pages(settings: Settings) -> Pages:
    """The ids of all events that a list brings, read in pages of two."""

    async def read(chosen: dict[str, Any]) -> list[UUID]:
        ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
        await ledger.open()
        found: list[UUID] = []
        after: UUID | None = None
        while True:
            page = await list_events(ledger, after=after, most=2, **chosen)
            found += [event.event_id for event in page.events]
            after = page.after
            if after is None:
                await ledger.close()
                return found

    def run(**chosen: Any) -> list[UUID]:
        with asyncio.Runner() as runner:
            return runner.run(read(chosen))

    return run


def test_events_are_listed_by_state_page_by_page(command: Commands, sql: Sql, pages: Pages) -> None:
    """Each state brings its own events and no others, every one once, in order, over pages of two and several topics."""
    subscribe(sql, "q.c", "known", "other")
    routed = record(sql, 5, "known", routed="now()")
    due = record(sql, 3, "known") + record(sql, 2, "other")
    later = record(sql, 3, "known", due="now() + interval '1 d'")
    later += record(sql, 2, "strange", due="now() + interval '1 d'")
    nobody = record(sql, 3, "strange")
    parked = record(sql, 3, "known", parked="'no object'")
    assert pages(state=EventState.PUBLISHED) == sorted(routed, reverse=True)
    assert pages(state=EventState.PARKED) == parked
    assert pages(state=EventState.SCHEDULED) == later
    assert pages(state=EventState.UNROUTABLE) == nobody
    assert sorted(pages(state=EventState.UNPUBLISHED)) == sorted(due + later + nobody)
    assert pages(state=EventState.UNPUBLISHED, topic="other") == due[3:]
    assert len(pages()) == 21
    assert pages(topic="strange") == sorted(nobody + later[3:], reverse=True)
    assert pages(since=datetime(2026, 6, 1, tzinfo=UTC)) == []
    assert len(pages(since=datetime(2025, 6, 1, tzinfo=UTC))) == 21
    states = [each["state"] for each in command("--json", "events", "list").json["events"]]
    assert Counter(states) == {"published": 5, "unpublished": 5, "scheduled": 5, "unroutable": 3, "parked": 3}
    first = command("events", "list", "--state", "unroutable", "--limit", "2")
    assert first.out.endswith(f"more: --after {nobody[1]}\n")
    second = command("events", "list", "--state", "unroutable", "--limit", "2", "--after", str(nobody[1]))
    assert str(nobody[2]) in second.out
    assert command("events", "list", "--state", "parked", "--after", str(uuid4())).code == Exit.NO_SUCH_ID
    assert command("events", "list", "--state", "lost").code == Exit.USAGE


def test_a_rare_topic_is_found_page_by_page_at_a_bounded_cost(
    command: Commands, sql: Sql, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at so many events and no more: it may be empty, and still says where the next one begins."""
    monkeypatch.setattr("homing.operations.events.WALK", 3)
    rare = record(sql, 1, "rare")
    record(sql, 8, "often", routed="now()")
    first = command("--json", "events", "list", "--topic", "rare", "--limit", "2").json
    assert first["events"] == []
    assert first["after"] is not None
    assert pages(topic="rare") == rare


def test_an_event_is_shown_with_what_came_of_it(command: Commands, sql: Sql) -> None:
    """Headers, trace, deliveries and deaths; the payload only where it is asked for; an id without anything is 6."""
    (event,) = record(sql, 1, "known", routed="now()")
    sql.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, generation, outcome, settled_at)"
        " VALUES (%s, 'q.a', 'q', 'a', 2, 'dead', now()), (%s, 'q.b', 'q', 'b', 1, NULL, NULL)",
        (event, event),
    )
    sql.execute(
        "INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)"
        """ VALUES (%s, 'q.a', 2, 'q', 'a', 'x', 'failed', '{}', '{"class": "Boom", "text": "no"}', 'f', 5)""",
        (event,),
    )
    said = command("events", "show", str(event))
    assert said.code == Exit.DONE
    for words in ("abc", "Boom: no", "pending", "dead", "published"):
        assert words in said.out
    assert "secret" not in said.out
    shown = command("--json", "events", "show", str(event)).json
    assert "secret" not in str(shown)
    assert {
        each["consumer"]: (each["generation"], each["outcome"], len(each["deaths"])) for each in shown["deliveries"]
    } == {
        "q.a": (2, "dead", 1),
        "q.b": (1, None, 0),
    }
    assert command("--json", "events", "show", str(event), "--payload").json == {"secret": 1}
    assert command("events", "show", str(uuid4())).code == Exit.NO_SUCH_ID
    assert command("events", "show", "not-an-id").code == Exit.USAGE


def test_parked_events_are_released_by_a_person(command: Commands, sql: Sql, pages: Pages) -> None:
    """Asks, refuses where nobody can be asked or nothing is parked, knows what it does not know, and keeps the deed."""
    (parked,) = record(sql, 1, "known", parked="'no object'")
    (other,) = record(sql, 1, "other")
    assert command("events", "release", str(parked)).code == Exit.REFUSED
    assert command("events", "release", str(parked), str(other), "--yes").code == Exit.REFUSED
    assert command("events", "release", str(parked), str(uuid4()), "--yes").code == Exit.NO_SUCH_ID
    assert command("events", "release", "x", "--yes").code == Exit.USAGE
    assert pages(state=EventState.PARKED) == [parked]
    assert command("--json", "events", "release", "-", "--yes", "--why", "mended", given=str(parked)).json == {
        "released": 1
    }
    assert pages(state=EventState.PARKED) == []
    (deed,) = command("--json", "actions", "list", "--action", "release").json["actions"]
    assert (deed["affected"], deed["reason"], deed["subject"]) == (1, "mended", {"events": [str(parked)]})


def test_a_consumer_is_retired_and_restored(command: Commands, sql: Sql) -> None:
    """All its topics or one; what is open stays open; twice is refused, an unknown name is 6; each deed is kept with its reason."""
    subscribe(sql, "mail.send", "one", "two")
    sql.execute(
        "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name) VALUES (gen_random_uuid(), 'mail.send', 'mail', 'send')"
    )
    assert command("consumers", "retire", "mail.send", "--why", "moved").code == Exit.REFUSED
    assert command("consumers", "retire", "mail.send", "--yes").code == Exit.USAGE
    assert command("--json", "consumers", "retire", "mail.send", "--topic", "one", "--why", "moved", "--yes").json == {
        "retired": "mail.send",
        "topics": ["one"],
        "topics_of_nobody": ["one"],
        "unsettled": 1,
        "owners": [],
    }
    (line,) = command("--json", "consumers", "list").json
    assert (line["state"], line["unsettled"], line["unowned"]) == ("partly retired", 1, True)
    subscribe(sql, "sms.send", "two")
    said = command("consumers", "retire", "mail.send", "--why", "moved", "--yes").out
    assert "1 deliveries are open" in said
    assert "nobody subscribes" not in said
    assert command("consumers", "retire", "mail.send", "--why", "moved", "--yes").code == Exit.REFUSED
    assert command("consumers", "retire", "mail.sent", "--why", "moved", "--yes").code == Exit.NO_SUCH_ID
    assert sql.execute("SELECT count(*) FROM homing.deliveries WHERE settled_at IS NULL").fetchall() == [(1,)]
    assert "retired" in command("consumers", "list").out
    restored = command("--json", "consumers", "restore", "mail.send", "--why", "back", "--yes").json
    assert sorted(restored["topics"]) == ["one", "two"]
    deeds = command("--json", "actions", "list").json["actions"]
    assert [(deed["action"], deed["affected"], deed["reason"]) for deed in deeds] == [
        ("restore", 2, "back"),
        ("retire", 1, "moved"),
        ("retire", 1, "moved"),
    ]


def test_processes_are_listed_with_what_they_said_last(command: Commands, sql: Sql) -> None:
    """Who lives, who is silent and for how long, and whatever state a heartbeat of any version wrote."""
    sql.execute(
        "INSERT INTO homing.workers (id, host, pid, version, role, routes, consumers, queues, seen_at, state) VALUES"
        ' (gen_random_uuid(), \'blue\', 7, \'1.0\', \'worker\', true, \'{mail.send}\', \'{mail}\', now(), \'{"ready": false, "reasons": ["no Redis"], "running": {"mail": 2, "sms": 1}, "slots": {"mail": 10}}\'),'
        " (gen_random_uuid(), 'red', 8, '1.0', 'relay', true, '{}', '{}', now() - interval '5 min', '{}'),"
        " (gen_random_uuid(), 'old', 9, '1.0', 'relay', true, '{}', '{}', now() - interval '5 h', '{}')"
    )
    out = command("workers", "list").out
    assert "blue:7" in out
    assert "worker and relay" in out
    assert "not ready" in out
    assert 'runs 3 of 10 reasons=["no Redis"]' in out
    assert "silent for 5m" in out
    assert "old:9" not in out
    assert "old:9" in command("workers", "list", "--all").out
    listed = command("--json", "workers", "list").json
    assert {each["host"]: each["alive"] for each in listed} == {"blue": True, "red": False}


def test_actions_are_listed_page_by_page_and_by_what_they_were(command: Commands, sql: Sql) -> None:
    """Newest first, each once, by actor, deed and time; what lies before is not shown."""
    sql.execute(
        "INSERT INTO homing.operator_actions (at, actor, action, subject, affected)"
        " SELECT now() - make_interval(hours => 10 - i), 'p' || i % 2, 'prune', '{}', i FROM generate_series(1, 9) i"
    )
    found, after = [], list[str]()
    while True:
        page = command("--json", "actions", "list", "--actor", "p1", "--limit", "2", *after).json
        found += [each["affected"] for each in page["actions"]]
        if page["after"] is None:
            break
        after = ["--after", str(page["after"])]
    assert found == [9, 7, 5, 3, 1]
    assert len(command("--json", "actions", "list", "--since", "150m").json["actions"]) == 2
    assert command("--json", "actions", "list", "--action", "cancel").json == {"actions": [], "after": None}
    assert command("actions", "list", "--since", "yesterday").code == Exit.USAGE
