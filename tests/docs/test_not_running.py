"""The page on what is not running tells the truth: its commands run, in its order, and do what it says."""

import asyncio
import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from homing import Event, Homing, PermanentError, RetryLater
from homing.cli.main import main
from homing.config.settings import Settings
from homing.durations import hours, seconds
from homing.ids import DeliveryKey
from tests.system import System, quick, running
from tests.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "not-running.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]

app = Homing("not-running")
partner = {"up": False}


class Asked(Event, topic="running.asked", unrouted=True):
    later: bool = False


@app.queue("work").handler("do", on=Asked, at_least_once=True)
async def do(event: Asked) -> None:
    if event.later:
        raise RetryLater(hours(1))
    if not partner["up"]:
        raise PermanentError("the partner is down")


@pytest.fixture(autouse=True)
def _this_machine(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DATABASE_URL", settings.asyncpg_dsn)
    monkeypatch.setenv("REDIS_URL", settings.redis_dsn)
    monkeypatch.setenv("HOMING_PREFIX", str(settings.prefix))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


async def has_counts(system: System, **expected: int) -> None:
    async def reached() -> bool:
        counts = await system.engine.counts("work")
        return all(getattr(counts, state) == number for state, number in expected.items())

    await until(reached, what=f"the queue has {expected}")


async def test_the_commands_of_the_page_run(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    """Each ends with 0; the dead delivery is done after its retry, the other one is cancelled, and the queue stays paused."""
    async with running(app, quick(settings, look=seconds(60))) as system:
        event, other = Asked(), Asked(later=True)
        await system.record(event, other)
        await has_counts(system, failed=1, delayed=1)
        ids = {
            f"${name}": DeliveryKey(each.event_id, "work.do", 1).job_id
            for name, each in (("JOB", event), ("OTHER", other))
        }
        words = {"$EVENT": str(event.event_id), **ids}
        partner["up"] = True
        said: dict[str, str] = {}
        for command in COMMANDS:
            arguments = [words.get(word, word) for word in shlex.split(command)[1:]]
            assert await asyncio.to_thread(main, arguments) == 0, command
            said[command] = capsys.readouterr().out
            if command.startswith("homing jobs retry $JOB"):
                await has_counts(system, completed=1)
            if "promote" in command:
                await has_counts(system, delayed=1)
        assert "dead: it died (failed: PermanentError: the partner is down)" in said["homing jobs explain $EVENT"]
        assert "0 jobs; nothing was changed" in said["homing jobs retry --queue work --dry-run"]
        (letter,) = await system.letters()
        assert letter["closed_as"] == "retried"
        outcomes = await system.sql.fetch("SELECT event_id, outcome FROM homing.deliveries")
        assert {row["event_id"]: row["outcome"] for row in outcomes} == {
            event.event_id: "done",
            other.event_id: "cancelled",
        }
        assert (await system.engine.observe("work")).paused
