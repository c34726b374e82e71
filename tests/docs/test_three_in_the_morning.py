"""The page for three in the morning tells the truth: its five commands run, look, change nothing, and say what it says."""

import asyncio
import re
import shlex
from pathlib import Path

import asyncpg
import pytest

from homing.config.settings import Settings
from homing.operations import verdict
from tests.docs.commands_page import verbs
from tests.integration.buried import bury
from tests.integration.commands import commands_on

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "three-in-the-morning.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
TROUBLE = """
INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode) VALUES ('order.placed', 'mail.send', 'mail', 'send', 'tx');
INSERT INTO homing.queues (queue) VALUES ('mail');
INSERT INTO homing.outbox_events (id, topic, payload, available_at)
VALUES ('01900000-0000-7000-8000-000000000001', 'order.placed', '{}', now() - interval '14 s');
INSERT INTO homing.operator_actions (actor, action, subject, affected, reason) VALUES ('alice@office', 'pause', '{"queue": "mail"}', 1, 'spam');
"""


async def prepare(settings: Settings) -> None:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    await connection.execute(TROUBLE)
    await bury(connection, 3, consumer="mail.send")
    await connection.close()


def test_the_five_commands_of_the_page_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each ends with 0, none asks, and together they name the standstill, the cause of the deaths, the event and the deed."""
    asyncio.run(prepare(settings))
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 5
    said = []
    with commands_on(settings, monkeypatch, capsys) as command:
        for line in COMMANDS:
            words = shlex.split(line.replace("$EVENT", "01900000-0000-7000-8000-000000000001"))
            answer = command(*words[1:], *(["--every", "100ms"] if "top" in words else []))
            assert (answer.code, answer.err) == (0, ""), line
            said.append(answer.out)
    status, top, groups, event, actions = said
    assert status.startswith("STALLED")
    assert "order.placed" in status
    assert "UTC" in top
    assert "OutOfOrder" in groups
    assert "unpublished" in event
    assert "alice@office" in actions


def test_what_the_page_names_exists() -> None:
    """Every command in its text is a verb, and what its table says is told by the verdict."""
    named = set(re.findall(r"`homing ((?:[a-z]+ ?){1,2})", PAGE))
    known = {verb.removeprefix("homing ") for verb in verbs()}
    assert {
        each.strip() for each in named if not any(verb in (each.strip(), each.split()[0]) for verb in known)
    } == set()
    told = Path(verdict.__file__).read_text(encoding="utf-8")
    for words in (
        "no relay lives",
        "no live worker serves it",
        "events and no consumer",
        "events are parked",
        "dead letters are open",
        "retired or unknown",
    ):
        assert words in PAGE, words
        assert words in told, words
