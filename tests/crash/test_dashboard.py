"""The dashboard as a process: it ends with whoever started it, also while somebody listens."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from homing.config.settings import Settings
from tests.waiting import until

ADDRESS = re.compile(r"the dashboard is at (http://\S+/)\"")


@contextmanager
def serving(settings: Settings, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A dashboard whose stdin we hold."""
    variables = {"DATABASE_URL": settings.asyncpg_dsn, "REDIS_URL": settings.redis_dsn, "HOMING_PREFIX": "x"}
    environment = {**os.environ, **variables, "HOMING_LOG_FORMAT": "json"}
    command = [sys.executable, "-m", "homing", "dashboard", "--supervised", "--port", "0"]
    with (
        log.open("wb") as written,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=written, cwd=log.parent, env=environment) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


async def test_it_ends_with_whoever_holds_its_stdin(settings: Settings, tmp_path: Path) -> None:
    """It says where it is, serves a stream, and leaves with 0 when the pipe at its stdin ends, though the stream is open."""
    log = tmp_path / "dashboard.log"
    with serving(settings, log) as process:
        await until(lambda: ADDRESS.search(log.read_text()), 60, "it serves")
        (address,) = ADDRESS.findall(log.read_text())
        async with httpx.AsyncClient() as client, client.stream("GET", f"{address}live") as stream:
            assert "retry: 2000" in await anext(stream.aiter_lines())
            assert process.stdin is not None
            process.stdin.close()
            assert await until(lambda: process.poll() is not None, 60, "it ends")
        assert process.returncode == 0
        assert "Traceback" not in log.read_text()
