"""`homing doctor` on real servers: each thing that can be made wrong is made wrong, and found."""

import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from redis import Redis

from homing.cli.ledgers import open_ledger
from homing.cli.main import main
from homing.config.settings import Settings
from homing.durations import minutes
from homing.embedded import EmbeddedValkey
from homing.operations.doctor import judge
from homing.queue.redis.checkup import check_up
from homing.upkeep.doctor import Finding, Level, examine_ledger, server
from homing.upkeep.doctor.schema import expected_indexes
from tests.integration.doctor_app import app

CHANGES = """
ALTER DATABASE {name} SET synchronous_commit = off;
ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read';
ALTER DATABASE {name} SET statement_timeout = '5s';
ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '10s';
DROP INDEX homing.dead_letters_open;
ALTER TABLE homing.deliveries SET (autovacuum_enabled = false)
"""


def doctor(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("DATABASE_URL", str(settings.database_url))
    monkeypatch.setenv("REDIS_URL", str(settings.redis_url))
    monkeypatch.setenv("HOMING_PREFIX", str(settings.prefix))
    return main(["--app", "tests.integration.doctor_app:app", "--json", "doctor"])


async def examine(settings: Settings) -> dict[str, Finding]:
    """What is not as it should be in PostgreSQL."""
    async with open_ledger(settings, "doctor") as ledger:
        examination = await examine_ledger(ledger, settings, app.queues, app.handlers)
    return bad(examination.findings)


def bad(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    assert all(bool(finding.fix) == (finding.level is not Level.OK) for finding in findings)
    return {finding.code: finding for finding in findings if finding.level is not Level.OK}


def test_good_servers(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On servers in good order only what tests give up on purpose is wrong: disks are not waited for, and runs are longer than the grace."""
    assert doctor(settings, monkeypatch) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {each["code"]: each["level"] for each in found if each["level"] != "ok"} == {
        "commits": "error",
        "grace": "warning",
    }
    assert {"schema", "indexes", "rights", "autovacuum", "pooler", "listen", "redis-eviction", "redis-aof"} <= {
        each["code"] for each in found
    }


async def test_what_is_wrong_with_postgres(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost index, commits that are not waited for, sessions with surprises, a table that nobody tidies, a transaction left open."""
    url = str(settings.database_url)
    monkeypatch.setattr(server, "OLD_TRANSACTION_SECONDS", 0.0)
    with closing(psycopg.connect(url)) as left_open, psycopg.connect(url, autocommit=True) as sql:
        left_open.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        left_open.execute("SELECT 1")
        for change in CHANGES.format(name=urlsplit(url).path[1:]).split(";"):
            sql.execute(change.encode())
        found = await examine(settings.model_copy(update={"attempt_timeout": minutes(2), "worker_processes": 30}))
    assert {code for code, finding in found.items() if finding.level is Level.ERROR} == {
        "autovacuum",
        "commits",
        "connections",
        "indexes",
    }
    assert found.keys() >= {"grace", "idle-in-transaction", "isolation", "old-transaction", "statement-timeout"}
    assert "dead_letters_open" in found["indexes"].text
    assert "synchronous_commit is off" in found["commits"].text


@pytest.fixture
def poor_settings(settings: Settings) -> Iterator[Settings]:
    """The same database for a role that may only read two tables."""
    role = f"poor_{secrets.token_hex(4)}"
    parts = urlsplit(str(settings.database_url))
    with psycopg.connect(str(settings.database_url), autocommit=True) as sql:
        sql.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'poor'".encode())
        sql.execute(f"GRANT USAGE ON SCHEMA homing TO {role}".encode())
        sql.execute(f"GRANT SELECT ON homing.ledger, homing.migrations, homing.queues TO {role}".encode())
        yield settings.model_copy(
            update={"database_url": f"postgresql://{role}:poor@{parts.hostname}:{parts.port}{parts.path}"}
        )
        sql.execute(f"DROP OWNED BY {role}".encode())
        sql.execute(f"DROP ROLE {role}".encode())


async def test_a_role_without_rights(poor_settings: Settings) -> None:
    """A role that may not write is told the command that lets it."""
    found = (await examine(poor_settings))["rights"]
    assert found.level is Level.ERROR
    assert "deliveries" in found.text
    assert "ledger" not in found.text
    assert "migrate --grant-to poor_" in found.fix


async def test_what_is_wrong_with_redis(disposable_valkey: EmbeddedValkey) -> None:
    """Eviction, no file, memory that is nearly used up, somebody else's queue, and jobs where BullMQ 5 keeps them."""
    with Redis.from_url(disposable_valkey.url()) as redis:
        limit = int(redis.info("memory")["used_memory"] * 1.1)
        redis.hset("own:stranger:meta", "version", "bullmq:5")
        redis.rpush("own:notes:paused", "17")
        before = {name: redis.config_get(name)[name] for name in ("maxmemory-policy", "appendonly")}
        try:
            for name, value in (("maxmemory-policy", "volatile-lru"), ("appendonly", "no"), ("maxmemory", str(limit))):
                redis.config_set(name, value)
            found = bad(tuple(judge(await check_up(disposable_valkey.url(), "own", ["notes"]))))
        finally:
            for name, value in (*before.items(), ("maxmemory", "0")):
                redis.config_set(name, value)
    levels = {code: finding.level.value for code, finding in found.items()}
    assert levels == {
        "redis-eviction": "error",
        "redis-aof": "warning",
        "redis-memory": "warning",
        "redis-keys": "warning",
        "bullmq-5": "error",
    }
    assert "stranger" in found["redis-keys"].text


@pytest.mark.parametrize("away", ["database_url", "redis_url"])
def test_a_server_that_is_away(
    away: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 with one line that names the server."""
    scheme = "postgresql" if away == "database_url" else "redis"
    nowhere = settings.model_copy(update={away: f"{scheme}://nobody:secret@127.0.0.1:1/0"})
    assert doctor(nowhere, monkeypatch) == 4
    shown = capsys.readouterr()
    (said,) = [line for line in shown.err.splitlines() if line.startswith("homing: ")]
    assert "127.0.0.1:1" in said
    assert "secret" not in shown.err


def test_the_expected_indexes_are_those_of_a_migrated_database(database_url: str) -> None:
    """What the migrations are read to leave behind is what they leave behind, but for constraints without a name of ours."""
    with psycopg.connect(database_url) as sql:
        rows = sql.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'homing'").fetchall()
    found = {row[0] for row in rows}
    assert expected_indexes() <= found
    assert found - expected_indexes() == {"queue_epochs_queue_epoch_key", "migrations_pkey"}
