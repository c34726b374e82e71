"""`homing migrate` as a program, against a real server."""

import json
import os
import subprocess
import sys

import psycopg
import pytest

from homing.schema.catalog import migrations


def homing(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with these variables and none of ours."""
    environment = {"PATH": os.environ["PATH"], **variables}
    command = [sys.executable, "-W", "error", "-m", "homing", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_migrates_and_says_which_ledger_it_is(empty_database_url: str) -> None:
    """The first run applies and names the ledger, the second has nothing to do, both end with 0 and silence on stderr."""
    both = {"DATABASE_URL": empty_database_url, "REDIS_URL": "redis://localhost"}
    first = homing("--json", "migrate", **both)
    second = homing("--json", "migrate", **both)
    assert (first.returncode, first.stderr, second.returncode, second.stderr) == (0, "", 0, "")
    assert json.loads(first.stdout)["applied"] == [migration.title for migration in migrations()]
    assert json.loads(second.stdout) == {"applied": [], "ledger": json.loads(first.stdout)["ledger"]}
    assert json.loads(second.stdout)["ledger"]["engine"] == "redis"


def test_printed_statements_do_the_same(empty_database_url: str) -> None:
    """What `--sql` prints can be run by hand; `migrate` then finds nothing to do."""
    printed = homing("migrate", "--sql", REDIS_URL="redis://localhost")
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
    after = homing("--json", "migrate", DATABASE_URL=empty_database_url, REDIS_URL="redis://localhost")
    assert (printed.returncode, after.returncode) == (0, 0)
    assert json.loads(after.stdout)["applied"] == []


@pytest.mark.parametrize(
    ("variables", "code", "expected"),
    [
        (
            {"DATABASE_URL": "mysql://db.test/shop"},
            3,
            "HOMING_DATABASE_URL=mysql://db.test/shop (DATABASE_URL): scheme",
        ),
        ({}, 3, "DATABASE_URL is not set"),
    ],
)
def test_what_cannot_work_is_one_line(variables: dict[str, str], code: int, expected: str) -> None:
    """A wrong or missing address is told in one line that names it, with exit code 3."""
    ended = homing("migrate", **variables)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(f"homing: {expected}")
    assert ended.stderr.count("\n") == 1


def test_a_wrong_password_or_database_is_a_configuration_error(empty_database_url: str) -> None:
    """What the server refuses is told apart from a server that is away: 3, not 4, and no password is shown."""
    address, _, _ = empty_database_url.rpartition("/")
    before, _, host = address.rpartition("@")
    for url in (f"{address}/no_such_database", f"{before}x@{host}/postgres"):
        ended = homing("migrate", DATABASE_URL=url, REDIS_URL="redis://localhost")
        assert ended.returncode == 3
        assert "homing: PostgreSQL refuses postgresql://homing:***@127.0.0.1" in ended.stderr


def test_migrating_and_showing_settings_import_no_redis_client(empty_database_url: str) -> None:
    """A deploy step that only migrates needs neither the Redis client nor the engine's packages."""
    script = (
        "import sys; from homing.cli.main import main; code = main(['migrate'])\n"
        "print(code, sorted({'redis', 'hiredis', 'msgpack', 'bullmq', 'sqlalchemy'} & sys.modules.keys()))"
    )
    environment = {"DATABASE_URL": empty_database_url, "REDIS_URL": "redis://localhost"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "0 []"
