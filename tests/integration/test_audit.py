"""`homing audit` on real ledgers: what it counts, what it calls wrong, and what it leaves alone."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from homing.cli.main import main

INSERTS = """
INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode, registered_at) VALUES
  ('order.placed', 'payments.capture', 'payments', 'capture', 'tx', now() - interval '1 day'),
  ('order.placed', 'loyalty.award', 'loyalty', 'award', 'tx', now());
INSERT INTO homing.outbox_events (id, topic, payload, published_at)
  SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000800000000000000' || i)::uuid, 'order.placed', '{}', now()
  FROM generate_series(1, 4) i;
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, check_at)
  SELECT id, 'payments.capture', 'payments', 'capture', now() + interval '30 s' FROM homing.outbox_events;
UPDATE homing.deliveries SET outcome = 'done', settled_at = now() WHERE event_id::text LIKE '%1';
"""
LETTER = """
INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT event_id, consumer, generation, queue, job_name, 'x', 'failed', '{}', '{}', 'f', 1 FROM homing.deliveries WHERE event_id::text LIKE '%2'
"""
BURY = "UPDATE homing.deliveries SET outcome = 'dead', settled_at = now() WHERE event_id::text LIKE '%2'"
LATE = "UPDATE homing.deliveries SET check_at = now() - interval '6 minutes' WHERE settled_at IS NULL"
WAITING = """
INSERT INTO homing.outbox_events (id, topic, payload, available_at, parked_error) VALUES
  (gen_random_uuid(), 'order.placed', '{}', now() - interval '6 minutes', NULL),
  (gen_random_uuid(), 'order.placed', '{}', now() + interval '1 day', NULL),
  (gen_random_uuid(), 'order.placed', '{}', now() - interval '6 minutes', 'it cannot be handed over'),
  (gen_random_uuid(), 'order.lost', '{}', now() - interval '6 minutes', NULL)
"""


@pytest.fixture
def sql(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A ledger in good order: four events for payments, one settled; loyalty came later. The command is pointed at it."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1")  # never asked
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(INSERTS.encode())
        yield connection


def audit(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["--json", "audit", *options])
    return code, json.loads(capsys.readouterr().out)


def test_a_ledger_in_good_order(sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    """Every event is accounted for by consumer; a death that has its letter, and a consumer that came later, are nothing wrong."""
    sql.execute(BURY.encode())
    sql.execute(LETTER.encode())
    code, found = audit(capsys)
    assert (code, found["problems"]) == (0, [])
    loyalty, payments = found["consumers"]
    assert loyalty["expected"] == 0
    counted = {name: payments[name] for name in ("expected", "done", "dead", "cancelled", "in_flight", "overdue")}
    assert counted == {"expected": 4, "done": 1, "dead": 1, "cancelled": 0, "in_flight": 2, "overdue": 0}
    assert found["topics"][0]["events"] == 4
    assert "1 open dead letters" in found["notes"][0]


def test_overdue_work_ends_with_1_and_says_what_to_do(
    sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """Looks and routings that are late by more than the margin are problems; scheduled, parked and unroutable events are notes."""
    sql.execute(LATE.encode())
    sql.execute(WAITING.encode())
    code, found = audit(capsys)
    assert code == 1
    assert [problem.split(": is a relay")[0].split(", the oldest")[0] for problem in found["problems"]] == [
        "topic order.placed: 1 events wait for routing",
        "payments.capture: 3 unsettled deliveries should have been compared with the engine by now",
    ]
    assert [note.split(":")[0] for note in found["notes"]] == ["topic order.lost", "topic order.placed"]
    assert audit(capsys, "--overdue", "10m")[0] == 0
    assert main(["audit"]) == 1
    shown = capsys.readouterr()
    assert "payments.capture" in shown.out
    assert "is a relay running" in shown.err


def test_rows_that_contradict_each_other_are_found(sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    """A delivery that is missing, a death without a letter, a letter without a death, a delivery without its event: each with an example."""
    sql.execute(LETTER.encode())  # of a delivery that is not dead
    sql.execute(BURY.replace("%2", "%3").encode())  # without a letter
    sql.execute(b"DELETE FROM homing.outbox_events WHERE id::text LIKE '%2'")
    sql.execute(b"DELETE FROM homing.deliveries WHERE event_id::text LIKE '%4'")
    code, found = audit(capsys)
    assert code == 1
    kinds = {each["kind"]: (each["rows"], each["example"][-1]) for each in found["contradictions"]}
    assert kinds == {
        "missing": (1, "4"),
        "silent death": (1, "3"),
        "letter of the living": (1, "2"),
        "no payload": (1, "2"),
    }
    assert len(found["problems"]) == 4
    assert found["consumers"][1]["expected"] == 4
