"""`homing worker` and `homing relay` as programs: they start, say so, stop when told, and refuse to start on a wrong footing."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from homing.config.settings import Settings
from tests.waiting import wait_until

_APP = """
from homing import Event, Homing

class OrderPlaced(Event, topic="order.placed"):
    order_id: int

app = Homing("shop")
orders = app.queue("orders")

@orders.handler("confirm", on=OrderPlaced, at_least_once=True)
async def confirm(event: OrderPlaced) -> None:
    pass
"""


class Program:
    """A running `homing` command, and what it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self) -> list[dict[str, object]]:
        """The complete log lines."""
        return [json.loads(line) for line in self._log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def says(self, text: str) -> bool:
        """Whether a message begins with `text`; fails when the program has ended meanwhile."""
        assert self.process.poll() is None, self._log.read_text()
        return any(str(line["message"]).startswith(text) for line in self.lines())


@contextmanager
def running(folder: Path, settings: Settings, *arguments: str) -> Iterator[Program]:
    """Run `homing --app jobs:app …` in `folder` on this test's servers; killed at the end if it still runs."""
    (folder / "jobs.py").write_text(_APP)
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": settings.asyncpg_dsn,
        "REDIS_URL": settings.redis_dsn,
        "HOMING_PREFIX": str(settings.prefix),
        "HOMING_LOG_FORMAT": "json",
        "HOMING_HTTP_ADDRESS": "127.0.0.1:0",
    }
    log = folder / "log"
    command = [sys.executable, "-m", "homing", "--app", "jobs:app", *arguments]
    with log.open("wb") as stderr, subprocess.Popen(command, cwd=folder, env=environment, stderr=stderr) as process:
        try:
            yield Program(process, log)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "ready"),
    [(("worker", "--queues", "orders:2"), "worker ready, relay included"), (("relay",), "relay ready")],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_in_good_order_when_told(
    tmp_path: Path, settings: Settings, arguments: tuple[str, ...], ready: str, number: signal.Signals
) -> None:
    """It says where it answers, and answers there; one SIGTERM or SIGINT ends it with 0, and every line it wrote is a JSON object."""
    with running(tmp_path, settings, *arguments) as program:
        wait_until(lambda: program.says(ready + ", health and metrics at http://127.0.0.1:"), 30, ready)
        (url,) = [found[0] for line in program.lines() if (found := re.search(r"http://[\d.:]+", str(line["message"])))]
        wait_until(lambda: httpx.get(f"{url}/readyz").status_code == 200, 10, "it is ready")
        program.process.send_signal(number)
        assert program.process.wait(timeout=60) == 0
        assert program.lines()[-1]["message"] == "stopped"


def test_without_the_tables_it_does_not_start(tmp_path: Path, settings: Settings, empty_database_url: str) -> None:
    """A missing migration is told at start, with the command to type, and ends with 3."""
    unmigrated = settings.model_copy(update={"database_url": empty_database_url})
    with running(tmp_path, unmigrated, "worker") as program:
        assert program.process.wait(timeout=60) == 3
    assert "homing: the database " in (tmp_path / "log").read_text()
    assert "run `homing migrate`" in (tmp_path / "log").read_text()


def test_without_redis_it_does_not_start(tmp_path: Path, settings: Settings, unused_tcp_port: int) -> None:
    """A Redis that is not there ends the start with 4, and names the address."""
    nowhere = settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{unused_tcp_port}/0"})
    with running(tmp_path, nowhere, "worker") as program:
        assert program.process.wait(timeout=60) == 4
    assert f"127.0.0.1:{unused_tcp_port}" in (tmp_path / "log").read_text()
