"""The page on flows tells the truth: its app does what the text says, its commands run, and its tables are complete."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest

from homing.cli.main import main
from homing.config.settings import Settings
from homing.ids import DeliveryKey
from homing.queue.flow_admission import MOST_JOBS
from homing.queue.parent import OnFailure
from homing.queue.port import QueueSettings
from tests.integration.commands import commands_on
from tests.system import System, quick, running
from tests.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "flows.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


async def test_the_page_does_what_it_says(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its order gets one invoice for all parcels; while it waits, the commands say for what; its report waits for its own."""
    page: dict[str, Any] = {"__name__": "flows_page"}
    for code in CODE:
        exec(compile(code, "flows.md", "exec"), page)  # noqa: S102 - the page's own code
    with commands_on(settings, monkeypatch, capsys):
        async with running(page["app"], quick(settings)) as system:
            await system.engine.push_settings("parcels", QueueSettings(paused=True))
            order = page["OrderPaid"](order_id="A7", parcels=2)
            await system.record(order)
            await _waits(system)
            said = [await _said(command, order, capsys) for command in COMMANDS]
            await system.engine.push_settings("parcels", QueueSettings(paused=False))
            await system.settled(30)
            result = await system.sql.fetchval(
                "SELECT result::text FROM homing.deliveries WHERE consumer = 'orders.invoice'"
            )
            assert await page["make_report"]() == ["VN-A7-1"]
            await page["app"].close()
    assert result == '["VN-A7-1", "VN-A7-2"]'
    shown, explained = said
    assert re.search(r"→ orders: \S+ waiting-children\n    parcels: \S+~parcel-1 waiting\n", shown)
    assert "waits for 2 of its 2 children" in explained
    assert "queue paused" in explained


async def _waits(system: System) -> None:
    async def is_waiting() -> bool:
        return (await system.engine.counts("orders")).waiting_children == 1

    await until(is_waiting, 30, "the invoice waits")


async def _said(command: str, order: Any, capsys: pytest.CaptureFixture[str]) -> str:
    job = DeliveryKey(order.event_id, "orders.invoice", 1).job_id
    arguments = [job if word == "$JOB" else word for word in shlex.split(command)[1:]]
    capsys.readouterr()
    assert await asyncio.to_thread(main, arguments) == 0, command
    return capsys.readouterr().out


def test_the_tables_of_the_page_are_complete() -> None:
    """Every policy is in the table, and the limits are the real ones."""
    assert re.findall(r'^\| `"(\w+)"` \|', PAGE, re.MULTILINE) == list(get_args(OnFailure))
    assert f"at most {MOST_JOBS:,} jobs" in PAGE
    assert f"every {Settings.model_fields['review'].default.total_seconds():.0f} seconds" in PAGE
