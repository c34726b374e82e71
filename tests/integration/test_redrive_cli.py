"""`homing deadletters` and `homing redrive` as people and programs use them, on a ledger without any other process."""

import asyncio
import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest

from homing.cli.main import main
from tests.integration.buried import bury
from tests.waiting import wait_until

HOSTILE = "bad \x1b[31mred\x1b[0m [link=x]\nnext line"
APP = """
from homing import Event, Homing

class Asked(Event, topic="dead.asked"):
    number: int

app = Homing("test")

@app.queue("work").handler("do", on=Asked, at_least_once=True)
async def do(event: Asked) -> None: ...
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs a command line on this test's database, with this text on stdin: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", "redis://nowhere.invalid")

    def command(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield command
    root.handlers[:] = handlers
    root.setLevel(level)


def buried(database_url: str, number: int, **more: Any) -> list[int]:
    """So many dead deliveries."""

    async def work() -> list[int]:
        connection = await asyncpg.connect(database_url)
        try:
            return await bury(connection, number, **more)
        finally:
            await connection.close()

    with asyncio.Runner() as runner:
        return runner.run(work())


def ask(database_url: str, question: str) -> list[tuple[Any, ...]]:
    """Rows of the ledger."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


def test_looking_at_dead_letters(run: Run, database_url: str) -> None:
    """List, groups and show, for people without anything that a terminal would obey, and whole for programs."""
    plain = buried(database_url, 2)
    (hostile,) = buried(database_url, 1, consumer="mail.send", fingerprint="f2", text=HOSTILE)
    code, out, _ = run("deadletters", "list", "--limit", "2")
    assert code == 0
    assert "bad �[31mred�[0m [link=x] next line" in out
    assert f"more: --before {plain[1]}" in out
    assert "\x1b" not in out
    listed = json.loads(run("--json", "deadletters", "list", "--error-text", "RED")[1])
    assert [(row["id"], row["error_text"]) for row in listed["letters"]] == [(hostile, HOSTILE)]
    groups = json.loads(run("--json", "deadletters", "groups", "--since", "1h")[1])
    assert [(row["fingerprint"], row["letters"]) for row in groups["groups"]] == [("f1", 2), ("f2", 1)]
    assert "3 open dead letters; a redrive would refuse 0 of them" in run("deadletters", "groups")[1]
    code, out, _ = run("deadletters", "show", str(hostile))
    assert code == 0
    assert "\x1b" not in out
    assert "bad �[31mred" in out
    shown = json.loads(run("--json", "deadletters", "show", str(hostile))[1])
    assert (shown["payload"], shown["edited"], shown["delivery"]["outcome"]) == ({"number": 0}, False, "dead")
    assert shown["error"]["text"] == HOSTILE
    assert json.loads(run("deadletters", "show", str(hostile), "--payload")[1]) == {"number": 0}


def test_a_campaign_from_its_dry_run_to_its_end(run: Run, database_url: str) -> None:
    """The dry run changes nothing, the campaign redrives what the filter chooses and says so, and running it again finds nothing."""
    buried(database_url, 5)
    others = buried(database_url, 1, consumer="mail.send", fingerprint="f2")
    ask(database_url, "DELETE FROM homing.outbox_events WHERE payload->>'number' = '3' RETURNING 1")
    chosen = ("redrive", "--consumer", "work.do", "--rate", "1000")
    code, out, _ = run(*chosen, "--dry-run")
    assert code == 0
    assert "5 open dead letters; a redrive would refuse 1 of them\n  1 because their event was pruned" in out
    assert ask(database_url, "SELECT count(*) FROM homing.redrive_campaigns") == [(0,)]
    code, out, err = run("--json", *chosen, "--why", "mended", "--yes")
    assert code == 0, err
    ended = json.loads(out)
    assert (ended["state"], ended["matched"], ended["redriven"], ended["refused"]) == (
        "finished",
        5,
        4,
        {"event gone": 1},
    )
    assert (ended["reason"], ended["pending"], ended["filter"]) == ("mended", 4, {"consumer": "work.do"})
    assert str(UUID(ended["campaign"])) == ended["campaign"]
    open_letters = ask(
        database_url, "SELECT id FROM homing.dead_letters WHERE closed_at IS NULL AND consumer <> 'work.do'"
    )
    assert open_letters == [(others[0],)]
    code, out, _ = run("redrive", "--list")
    assert code == 0
    assert ended["campaign"] in out
    assert run("redrive", "--stop", ended["campaign"])[0] == 5
    assert run("redrive", "--resume", str(UUID(int=0)))[0] == 6


def test_letters_by_id(run: Run, database_url: str, tmp_path: Path) -> None:
    """Named letters are redriven one by one, dismissed, or run with an edited payload; what is refused is told, with a code of its own."""
    (tmp_path / "work_app.py").write_text(APP)
    first, second, third, fourth = buried(database_url, 4)
    assert run("redrive", "--id", str(first), "--why", "x", "--yes") == (0, f"1 redriven: {first}\n", "")
    code, out, err = run("redrive", "--id", "-", "--why", "x", "--yes", stdin=f"{first}\n{second}\n")
    assert (code, out) == (5, f"1 redriven: {second}\n")
    assert err.startswith(f"homing: letter {first} was closed as redriven by ")
    assert run("redrive", "--id", "999", "--why", "x", "--yes")[0] == 6
    (tmp_path / "edited.json").write_text('{"number": "x"}')
    edit = ("--app", "work_app:app", "redrive", "--id", str(third), "--edit", "edited.json", "--why", "x")
    code, _, err = run(*edit)
    assert code == 5
    assert "does not fit Asked of dead.asked" in err
    (tmp_path / "edited.json").write_text('{"number": 77}')
    assert run(*edit)[0] == 0
    assert ask(database_url, "SELECT edited->'payload' FROM homing.deliveries WHERE edited IS NOT NULL") == [
        ({"number": 77},)
    ]
    code, out, err = run("deadletters", "dismiss", str(third), str(fourth), "--why", "x", "--yes")
    assert (code, out, err) == (6, "1 dismissed\n", f"homing: not open, or never there: {third}\n")
    deeds = ask(database_url, "SELECT action, affected, reason FROM homing.operator_actions ORDER BY id")
    assert deeds == [("redrive", 1, "x"), ("redrive", 1, "x"), ("redrive", 1, "x"), ("dismiss", 1, "x")]


UNDONE = [
    (("redrive", "--why", "x", "--yes"), 5, "an empty filter would take every dead letter"),
    (("redrive", "--everything", "--why", "x", "--yes"), 5, "no open dead letter fits this filter"),
    (("redrive", "--everything", "--why", "x"), 5, "Nobody can be asked here: say --yes"),
    (("redrive", "--everything", "--yes"), 2, "say why"),
    (("redrive", "--kind", "bad", "--dry-run"), 2, "'bad' is no kind of dead letter"),
    (("redrive", "--since", "yesterday", "--dry-run"), 2, "neither a duration"),
    (("redrive", "--id", "x", "--why", "x"), 2, "'x' is no id of a dead letter"),
    (("redrive", "--list", "--queue", "a"), 2, "they stand alone"),
    (("redrive", "--queue", "a", "--edit", "x.json", "--why", "x"), 2, "it goes with exactly one --id"),
    (("redrive", "--queue", "a", "--rate", "nan", "--why", "x", "--yes"), 2, "Invalid value for '--rate'"),
    (("deadletters", "dismiss", "1", "--why", "x"), 5, "Nobody can be asked here: say --yes"),
    (("deadletters", "show", "7"), 6, "there is no dead letter 7"),
]


def test_what_is_not_done_says_why(run: Run) -> None:
    """Refused, unreadable and unknown each have their exit code and one message."""
    for arguments, code, expected in UNDONE:
        ended, _, err = run(*arguments)
        assert (ended, expected in " ".join(err.split())) == (code, True), (arguments, err)


def test_ctrl_c_pauses_and_tells_how_to_go_on(database_url: str, tmp_path: Path) -> None:
    """A campaign that its command leaves rests with exact counts, and is finished by the command that it named."""
    buried(database_url, 30)
    environment = {"PATH": os.environ["PATH"], "DATABASE_URL": database_url, "REDIS_URL": "redis://nowhere.invalid"}
    command = [sys.executable, "-m", "homing", "redrive", "--everything", "--rate", "1", "--why", "x", "--yes"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: ask(database_url, "SELECT 1 FROM homing.redrive_campaigns WHERE redriven > 0"), 60)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    ((campaign, state, redriven),) = ask(database_url, "SELECT id, state, redriven FROM homing.redrive_campaigns")
    assert state == "paused"
    assert ask(database_url, "SELECT count(*) FROM homing.dead_letters WHERE campaign IS NOT NULL") == [(redriven,)]
    assert f"go on with: homing redrive --resume {campaign}" in out
    ask(database_url, "UPDATE homing.redrive_campaigns SET rate = 1000 RETURNING 1")
    resume = [*command[:4], "--resume", str(campaign)]
    done = subprocess.run(
        resume, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"campaign {campaign} finished; 30 of 30 redriven" in done.stdout
