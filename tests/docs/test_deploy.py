"""The page on deploying tells the truth: its commands run in its order, and its numbers are those of the code."""

import asyncio
import re
import shlex
from pathlib import Path

import asyncpg
import pytest

from homing import Event, record
from homing.cli.exits import Exit
from homing.config.settings import Settings
from homing.processes.plan import CLOSING_SECONDS, MARGIN_SECONDS, StopPlan
from homing.schema import migrate
from homing.worker.worker import ENDING_SECONDS
from tests.integration.commands import commands_on

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL)
APP = "tests.integration.doctor_app:app"


class Early(Event, topic="deploy.early"):
    """Recorded by an application that was deployed before its workers."""


async def record_early(settings: Settings) -> None:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    async with connection.transaction():
        await record(connection, Early())
    await connection.close()


def test_the_commands_run_in_their_order(
    settings: Settings, empty_database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On an empty database each ends well; afterwards an event that nobody handles yet waits, and its topic is named."""
    fresh = settings.model_copy(update={"database_url": empty_database_url})
    monkeypatch.setenv("HOMING_APP", APP)
    named, *lines = BLOCK.splitlines()
    assert named.startswith("export HOMING_APP=")
    with commands_on(fresh, monkeypatch, capsys) as command:
        for line in lines:
            ended = command(*shlex.split(line)[1:])
            assert ended.code == 0 or ("doctor" in line and ended.code == Exit.FOUND_WRONG), ended
        asyncio.run(record_early(fresh))
        said = command("status")
    assert said.code == 0
    assert "topic deploy.early: 1 events and no consumer" in " ".join(said.out.split())


def test_the_grace_of_the_page_is_what_a_worker_says() -> None:
    """With the default settings, and every part of the sum."""
    settings = Settings()
    plan = StopPlan(settings.shutdown_grace.total_seconds())
    parts = (plan.grace_seconds, ENDING_SECONDS, CLOSING_SECONDS, MARGIN_SECONDS)
    assert f"terminationGracePeriodSeconds: {plan.termination_grace_seconds} " in PAGE
    assert "({:g} s) + {:g} s to let go + {:g} s to close + {:g} s".format(*parts) in PAGE
    assert f"`HOMING_LEASE`, {settings.lease.total_seconds():g} s" in PAGE
    assert f"`HOMING_RESCUE`, {settings.rescue.total_seconds():g} s" in PAGE
    assert settings.relay_poll.total_seconds() == 0.5


def test_the_wait_for_a_lock_is_that_of_the_migration() -> None:
    """Five seconds, in words."""
    assert (migrate.__kwdefaults__ or {})["lock_timeout_seconds"] == 5
    assert "gives up after five seconds" in PAGE
