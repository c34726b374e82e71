"""`homing worker` on a wrong footing, as a program: it ends with 3 before it claims anything, and one message names both values."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from homing.config.settings import Settings

APP = """
from homing import Event, Homing

class Placed(Event, topic="placed"):
    number: int

app = Homing("shop")
orders = app.queue("orders"{options})

@orders.handler("confirm", on=Placed, at_least_once=True)
async def confirm(event: Placed{parameters}) -> None: ...
"""

SECOND = """
@orders.handler("confirm", on=Placed, at_least_once=True)
async def confirm_again(event: Placed) -> None: ...
"""


def end_of(folder: Path, settings: Settings, app: str, *arguments: str) -> str:
    """Start a worker of this app, which must end with 3 and without a traceback; what it said. `NAME=value` is a variable."""
    (folder / "jobs.py").write_text(app)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
    environment |= {"DATABASE_URL": settings.asyncpg_dsn, "REDIS_URL": settings.redis_dsn}
    environment |= dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    command = [sys.executable, "-m", "homing", "--app", "jobs:app", "worker", *(a for a in arguments if "=" not in a)]
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 3, ended.stderr
    return ended.stderr


GOOD = APP.format(options="", parameters="")


@pytest.mark.parametrize(
    ("app", "arguments", "words"),
    [
        (APP.format(options=", concurrency=0", parameters=""), "", ["queue 'orders' has concurrency=0: at least 1"]),
        (GOOD, "HOMING_WORKER_CONCURRENCY=0", ["HOMING_WORKER_CONCURRENCY=0", "greater than 0"]),
        (GOOD, "--queues orders:0", ["'orders:0' is no queue"]),
        (GOOD, "HOMING_WORKER_PROCESSES=0", ["HOMING_WORKER_PROCESSES=0", "greater than 0"]),
        (
            GOOD,
            "HOMING_LEASE=2s HOMING_BEAT=1s",
            ["HOMING_LEASE is 2s and HOMING_BEAT is 1s", "raise HOMING_LEASE to 3s"],
        ),
        (
            GOOD,
            "HOMING_ATTEMPT_TIMEOUT=60s HOMING_SHUTDOWN_GRACE=25s",
            ["HOMING_ATTEMPT_TIMEOUT is 1m and HOMING_SHUTDOWN_GRACE is 25s"],
        ),
        (
            APP.format(options="", parameters=", mail: dict[str, int]"),
            "",
            ["jobs.py:", "parameter 'mail' wants dict[str, int]", "the lifespan provides nothing"],
        ),
        (GOOD + SECOND, "", ["two handlers are called 'orders.confirm'", "jobs.py:10", "jobs.py:13"]),
    ],
    ids=[
        "concurrency of a queue",
        "concurrency",
        "queue with no slot",
        "processes",
        "lease and beats",
        "attempt and grace",
        "parameter",
        "two of one name",
    ],
)
def test_a_worker_that_cannot_work_does_not_start(
    tmp_path: Path, settings: Settings, app: str, arguments: str, words: list[str]
) -> None:
    """Each mistake is told with what was said, where, and what would do."""
    said = end_of(tmp_path, settings, app, *arguments.split())
    for each in words:
        assert each in said
