"""The page on dead letters tells the truth: its commands run, in its order, and do what it says."""

import asyncio
import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from homing.cli.main import main
from homing.deadletters.redrive import Refusal
from tests.integration.buried import bury

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "dead-letters.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
APP = """
from homing import Event, Homing

class Asked(Event, topic="dead.asked"):
    number: int

app = Homing("test")

@app.queue("work").handler("do", on=Asked, at_least_once=True)
async def do(event: Asked) -> None: ...
"""

WORKER = """
CREATE FUNCTION done() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN NEW.outcome := 'done'; NEW.settled_at := now(); RETURN NEW; END $$;
CREATE TRIGGER worker BEFORE UPDATE ON homing.deliveries FOR EACH ROW WHEN (NEW.generation > OLD.generation) EXECUTE FUNCTION done();
"""
"""A worker that is done with a delivery in the moment in which it is redriven."""


@pytest.fixture
def ledger_url(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A ledger with forty dead deliveries of two groups, an app beside it, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", "redis://nowhere.invalid")
    monkeypatch.setenv("HOMING_APP", "dead_letters_app:app")
    (tmp_path / "dead_letters_app.py").write_text(APP)

    async def work() -> None:
        connection = await asyncpg.connect(database_url)
        await bury(connection, 30, fingerprint="another")
        await bury(connection, 10, fingerprint="5f0c1d2e3a4b5c6d")
        await connection.execute(WORKER)
        await connection.close()

    with asyncio.Runner() as runner:
        runner.run(work())
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield database_url
    root.handlers[:] = handlers
    root.setLevel(level)


def carry_out(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """One line of the page as a shell would run it, said yes to."""
    line, _, file = command.partition(" > ")
    program, *arguments = shlex.split(line)
    assert program == "homing"
    if "--why" in arguments and "--edit" not in arguments:
        arguments.append("--yes")
    assert main(arguments) == 0, command
    out = capsys.readouterr().out
    if file:
        Path(file).write_text(out)
    return out


def test_the_commands_of_the_page_run(ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each ends with 0, and together they leave what the page says: ten redriven by a campaign, three by hand, one dismissed."""
    assert len(COMMANDS) == 10
    said = {command: carry_out(command, capsys) for command in COMMANDS}
    assert any("10 of 10 redriven" in text for text in said.values())
    with psycopg.connect(ledger_url, autocommit=True) as connection:
        closed = connection.execute(
            "SELECT closed_as, campaign IS NOT NULL, count(*) FROM homing.dead_letters WHERE closed_at IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchall()
    assert closed == [("dismissed", False, 1), ("redriven", False, 3), ("redriven", True, 10)]


def test_the_reasons_of_the_page_are_the_real_ones() -> None:
    """Every reason in the table of refusals is one that a campaign counts."""
    listed = re.findall(r"^\| ([a-z ]+) \| ", PAGE.partition("## What is refused")[2], re.MULTILINE)[1:]
    assert set(listed) <= {refusal.value for refusal in Refusal}
    assert len(listed) == 4
