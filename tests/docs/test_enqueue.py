"""The page on enqueueing tells the truth: its code runs, its commands too, and its table of modes is what the engine does."""

import asyncio
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from homing import Deduplicate
from homing.config.settings import Settings
from homing.durations import seconds
from tests.integration.commands import commands_on
from tests.system import quick, running
from tests.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "enqueue.md").read_text(encoding="utf-8")


@pytest.fixture
def page() -> Iterator[Any]:
    """The page's Python block, as the module that a reader would save."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    module = ModuleType("reports_page")
    sys.modules[module.__name__] = module
    exec(compile(block, "enqueue.md", "exec"), module.__dict__)  # noqa: S102 - our own page, executed on purpose
    yield module
    del sys.modules[module.__name__]


async def test_the_page_runs(
    page: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two clicks are one report, whose result, progress and lines are there; failures are followed; commands do what the page says of them."""
    transport = httpx.ASGITransport(page.api)
    async with httpx.AsyncClient(transport=transport, base_url="http://reports") as client:
        page.app.use(settings)
        first, second = [(await client.post("/reports/alice")).json() for _ in range(2)]
        assert (first["was_there"], second) == (False, {"job": first["job"], "was_there": True})
        async with running(page.app, quick(settings), relay=False):
            answer = await client.get(f"/reports/jobs/{first['job']}")
            assert answer.json() == {"url": "https://reports.test/alice"}
            job = page.reports.job(first["job"])
            assert (await job.progress(), (await job.logs()).total) == ({"page": 3, "of": 3}, 3)
            await _follow(page)
            await _run_commands(page, settings, monkeypatch, capsys)
            await page.app.close()


async def _follow(page: Any) -> None:
    """Jobs that no handler can read fail until the stream, which begins at some moment, has told of one."""
    seen: list[str] = []
    following = asyncio.create_task(page.failures(seen))

    async def is_told() -> bool:
        await page.reports.enqueue("render", {"customer": "nobody"}, elsewhere=True)
        return bool(seen)

    await until(is_told, 30)
    assert "no envelope" in seen[0]
    following.cancel()
    await asyncio.wait({following})


async def _run_commands(
    page: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL)
    waiting, delayed = (shlex.split(line)[1:] for line in block.splitlines())
    with commands_on(settings, monkeypatch, capsys) as homing:
        said = await asyncio.to_thread(homing, *waiting)
        assert (said.code, "https://reports.test/alice" in said.out) == (0, True), said
        assert (await asyncio.to_thread(homing, *delayed)).code == 0
    assert (await page.reports.counts()).delayed == 1


def test_the_modes_of_the_table_are_those_there_are() -> None:
    """Each row of the table is a set of terms that `Deduplicate` takes."""
    rows = re.findall(r"^\| `((?:ttl|keep)[^`]*)`", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for row in rows:
        terms = {name: (seconds(5) if name == "ttl" else True) for name in re.findall(r"(\w+)=", row)}
        assert Deduplicate("id", **terms).rule().id == "id"  # type: ignore[arg-type]  # each term has one kind of value
