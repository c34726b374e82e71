"""The page on long jobs: its code runs, its pieces are there once, and its numbers are those that are shipped."""

import re
from pathlib import Path
from typing import Any

from homing import Homing
from homing.config.settings import Settings
from tests.system import quick, running, with_sessions

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "long-jobs.md"
PAGES = 4


def written() -> dict[str, Any]:
    """What the code of the page declares."""
    names: dict[str, Any] = {"__name__": "long_jobs"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    return names


async def test_every_piece_records_the_next(settings: Settings) -> None:
    """One event at the start, and all pages are there once."""
    names = written()
    app = Homing("reports")
    app.queue("reports").handler("export-page", on=names["ExportAsked"])(names["export_page"])
    async with running(with_sessions(app, settings), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE exported (id text, page integer)")
        await system.record(names["ExportAsked"](export_id="march", pages=PAGES))
        await system.settled(20)
        assert [row["page"] for row in await system.sql.fetch("SELECT page FROM exported ORDER BY page")] == [
            *range(PAGES)
        ]


def test_what_computes_runs_in_a_process() -> None:
    """With the time that the page gives it."""
    (draw,) = [handler for handler in written()["app"].handlers if handler.job_name == "draw"]
    assert draw.kind == "process"
    assert draw.policy.timeout_seconds == 300


def test_the_times_are_those_that_are_shipped() -> None:
    """Each row of the table says the default."""
    said = {
        name.strip("`"): text
        for name, text in re.findall(r"^\| (`\w+`)\S*[^|]* \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    }
    shipped = Settings()
    assert said["HOMING_LEASE"] == f"{shipped.lease.total_seconds():g} s"
    assert said["HOMING_SHUTDOWN_GRACE"] == f"{shipped.shutdown_grace.total_seconds():g} s"
    assert f"{shipped.attempt_timeout.total_seconds():g} s an attempt" in PAGE.read_text()
