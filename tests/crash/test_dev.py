"""`homing dev` as a real process: servers of its own, the newest code, and nothing left at the end."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

from homing import Event, record
from homing.embedded import EmbeddedPostgres
from tests.crash.children import Child
from tests.waiting import until

APP = """
import asyncio
from pathlib import Path

from homing import Event, Homing, Job


class Asked(Event, topic="dev.asked"):
    number: int = 0


app = Homing("dev")
questions = app.queue("questions")


@questions.handler("answer", on=Asked, at_least_once=True)
async def answer(event: Asked, job: Job) -> None:
    with Path(__file__).with_name("notes.txt").open("a") as notes:
        notes.write(f"{job.attempt} ANSWER\\n")
"""
ENDLESS = "    await asyncio.Event().wait()\n"


class Asked(Event, topic="dev.asked", unrouted=True):
    """What the test records; the app has its own class for the topic."""

    number: int = 0


class Folder:
    """The folder of somebody who writes an app."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, answer: str, more: str = "") -> None:
        """Save the app as an editor does: beside it, then in its place."""
        fresh = self.path / "jobs.py~"
        fresh.write_text(APP.replace("ANSWER", answer) + more)
        fresh.replace(self.path / "jobs.py")

    @property
    def notes(self) -> list[str]:
        """The attempt and the answer of every run that began."""
        notes = self.path / "notes.txt"
        return notes.read_text().splitlines() if notes.exists() else []

    async def noted(self, *expected: str) -> None:
        """Wait until exactly these runs have begun."""
        await until(lambda: len(self.notes) >= len(expected), 30, f"{len(expected)} runs")
        assert self.notes == list(expected)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """With an app in it."""
    path = tmp_path / "mine"
    path.mkdir()
    folder = Folder(path)
    folder.write("first")
    return folder


Start = Callable[..., Child]


@pytest.fixture
def dev(folder: Folder) -> Iterator[Start]:
    """Starts `homing dev` in the folder; it and all below it are gone at the end."""
    with ExitStack() as stack:

        def start(*arguments: str, **variables: str) -> Child:
            command = ["dev", *([] if "HOMING_DASHBOARD_ADDRESS" in variables else ["--no-dashboard"]), *arguments]
            child = Child("jobs:app", command, environment(variables), folder.path.parent / "dev.log", cwd=folder.path)
            stack.callback(end, child)
            return child

        yield start


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Ours without a server in it, and with variables of the test."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("HOMING_", "DATABASE_", "REDIS"))}
    embedded = {name: value for name, value in os.environ.items() if name.startswith("HOMING_EMBEDDED_")}
    return ours | embedded | {"HOMING_LOG_FORMAT": "json", "HOMING_HTTP_ADDRESS": "off"} | variables


def end(child: Child) -> None:
    """Kill it and whatever is below it."""
    left = below(child)
    child.kill()
    for process in left:
        if process.is_running():
            process.kill()


def below(child: Child) -> list[psutil.Process]:
    """Every process that it started, and those that they started: the worker, the servers and who watches these."""
    return psutil.Process(child.pid).children(recursive=True) if child.code is None else []


async def all_ended(processes: list[psutil.Process]) -> None:
    """Wait until none of them is left."""
    await until(lambda: not any(process.is_running() for process in processes), 20, "nothing is left")


async def ask(database_url: str) -> None:
    """Record one event, as the application would."""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        await record(connection, Asked())
    await connection.close()


async def test_one_command_is_enough(dev: Start, folder: Folder) -> None:
    """Without any URL: servers start, tables are made, an event recorded at the printed URL is handled, a page shows it; Ctrl-C ends all, and the data stays."""
    child = dev(HOMING_DASHBOARD_ADDRESS="127.0.0.1:0")
    await child.says("worker ready, relay included", 60)
    (url,) = re.findall(r"export DATABASE_URL='?(\S+?)'?\n", child.log)
    assert "export REDIS_URL=" in child.log
    await ask(url)
    await folder.noted("1 first")
    await child.says("the dashboard is at http://127.0.0.1:", 60)
    (pages,) = re.findall(r"the dashboard is at (http://127\.0\.0\.1:\d+/)", child.log)
    async with httpx.AsyncClient() as client:
        assert "questions" in (await client.get(f"{pages}queues")).text
    processes = below(child)
    assert any("postgres" in process.name() for process in processes)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    assert await child.ended(30) == 0
    await all_ended(processes)
    (home,) = (folder.path / ".homing").glob("postgres*")
    assert EmbeddedPostgres(home).url() == url
    assert (home / "data" / "PG_VERSION").exists()


async def test_running_job_is_given_back_and_runs_on_the_newest_code(
    dev: Start, folder: Folder, database_url: str, redis_url: str, redis_prefix: str
) -> None:
    """A file saved while a job runs: the same attempt again, on the new code. One that cannot be read is told once, and waited for."""
    folder.write("old", ENDLESS)
    child = dev(DATABASE_URL=database_url, REDIS_URL=redis_url, HOMING_PREFIX=redis_prefix)
    await child.says("worker ready")
    await ask(database_url)
    await folder.noted("1 old")
    folder.write("newer", ENDLESS)
    await folder.noted("1 old", "1 newer")
    folder.write("broken", "def\n")
    await child.says("it starts again when a file has changed")
    assert child.log.count("invalid syntax in 'def'") == 1
    assert "Traceback" not in child.log
    assert below(child) == []
    folder.write("mended")
    await folder.noted("1 old", "1 newer", "1 mended")
    assert database_url not in child.log
    assert not (folder.path / ".homing").exists()


async def test_second_interrupt_waits_for_nobody(
    dev: Start, folder: Folder, database_url: str, redis_url: str, redis_prefix: str
) -> None:
    """A worker whose event loop is blocked keeps nobody at the terminal: the second Ctrl-C kills it, and the code says so."""
    folder.write("blocked", "    __import__('time').sleep(60)\n")
    child = dev("--no-reload", DATABASE_URL=database_url, REDIS_URL=redis_url, HOMING_PREFIX=redis_prefix)
    await child.says("worker ready")
    await ask(database_url)
    await folder.noted("1 blocked")
    folder.write("never read")
    processes = below(child)
    child.signal(signal.SIGINT)
    await child.says("SIGINT: stopping")
    child.signal(signal.SIGINT)
    assert await child.ended(5) == 130
    await all_ended(processes)
    assert folder.notes == ["1 blocked"]
