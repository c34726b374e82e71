"""The page on schedules tells the truth: its code runs by the clock, and its commands do what they say."""

import asyncio
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import pytest

from homing.cli.exits import Exit
from homing.config.settings import Settings
from homing.cron import parse_cron
from tests.integration.commands import commands_on
from tests.system import quick, running, with_sessions
from tests.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "schedules.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def page() -> Iterator[Any]:
    """The page's Python blocks, as the module that a reader would save."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    module = ModuleType("schedules_page")
    sys.modules[module.__name__] = module
    exec(compile("\n\n".join(blocks), "docs/howto/schedules.md", "exec"), module.__dict__)  # noqa: S102 - our own page
    yield module
    del sys.modules[module.__name__]


def test_the_pages_code_runs_and_its_commands_work(
    page: Any,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The interval begins at once; the four schedules are there; a run by hand has its effect; the commands run in the page's order."""
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    page.print = printed.append
    app = with_sessions(page.app, settings)

    async def run(*wanted: str) -> int:
        async with running(app, quick(settings)) as system:
            await until(lambda: [line for line in printed if line.startswith("ping for")], what="the interval began")
            assert system.relay is not None
            await system.relay.keeper.keep("maintenance")
            await page.set_up("asia")
            assert await page.maintenance.remove_schedule("report-asia")
            if wanted:
                await until(lambda: _days(system.sql), what="the run by hand is done")
            await app.close()
            return len(await system.engine.due_times("maintenance"))

    asyncio.run(_make_table(settings))
    assert asyncio.run(run()) == 4
    with commands_on(settings, monkeypatch, capfd) as command:
        said = {line: command(*shlex.split(line)[1:]) for line in COMMANDS}
    assert {line: one.code for line, one in said.items()} == dict.fromkeys(COMMANDS, Exit.DONE), said
    assert said["homing schedules list"].out.count("maintenance") == 4
    assert said["homing schedules next daily-totals"].out.count("02:30:00 CE") >= 4
    assert asyncio.run(run("done")) == 4


async def _days(sql: asyncpg.Connection) -> int:
    found: int = await sql.fetchval("SELECT count(*) FROM totals")
    return found


async def _make_table(settings: Settings) -> None:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    await connection.execute("CREATE TABLE totals (day date)")
    await connection.close()


def test_the_example_of_skipped_and_repeated_times_is_true() -> None:
    """02:30 in Paris on 29 March 2026, and quarters through the repeated hour."""
    paris = parse_cron("30 2 * * *", "Europe/Paris").next(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert paris == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert "is 03:30" in PAGE
    night = parse_cron("*/15 * * * *", "Europe/Paris").upcoming(datetime(2026, 10, 24, 23, tzinfo=UTC), 16)
    assert {later - earlier for earlier, later in pairwise(night)} == {timedelta(minutes=15)}
