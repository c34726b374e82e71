"""The page on the dashboard tells the truth: its code runs, its commands do what it says, its settings and roles exist."""

import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from homing.config.settings import PATHS, Settings
from homing.dashboard.users import read_users
from homing.ledger.actions import OPERATORS_ACTIONS, Role
from tests.integration.commands import commands_on

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "dashboard.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```shell\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


async def test_the_mounted_dashboard_of_the_page_works(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever the sign-on names is in, with the role that it says, and nobody else."""
    monkeypatch.setenv("DATABASE_URL", settings.asyncpg_dsn)
    monkeypatch.setenv("REDIS_URL", settings.redis_dsn)
    monkeypatch.setenv("HOMING_PREFIX", str(settings.prefix))
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    page: Any = ModuleType("dashboard_page")
    exec(compile(block, str(PAGE), "exec"), page.__dict__)  # noqa: S102 - our own page, executed on purpose
    transport = httpx.ASGITransport(page.app)
    async with (
        page.app.router.lifespan_context(page.app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        assert (await client.get("/ops/homing/")).status_code == 401
        for name, role in (("ada@example.com", "admin"), ("eve@example.com", "viewer")):
            shown = await client.get("/ops/homing/", headers={"x-forwarded-user": name})
            assert (shown.status_code, f'class="role">{role}<' in shown.text) == (200, True)


def test_the_commands_of_the_page_add_a_user_and_need_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A user is written with the role; without users, an address that others reach is refused with 3 and the remedy."""
    monkeypatch.chdir(tmp_path)
    alone, add, serve = [shlex.split(line.replace("/etc/homing/users", "users"))[1:] for line in COMMANDS]
    assert alone == ["dashboard"]
    with commands_on(settings, monkeypatch, capsys) as command:
        assert command(*add, given="short\n").code == 3
        assert command(*add, given="correct horse battery\n").out == "ada may log in as operator, by users\n"
        refused = command("dashboard", *serve[3:])
    assert read_users(tmp_path / "users")["ada"].role is Role.OPERATOR
    assert refused.code == 3
    assert "can be reached from elsewhere" in refused.err


def test_its_settings_and_roles_exist() -> None:
    """Every variable of the page is one, none of the dashboard's is missing, and the table of roles names what operators may."""
    named = {name.lower() for name in re.findall(r"HOMING_(DASHBOARD_[A-Z_]+)", TEXT)}
    assert named == {path for path in PATHS if path.startswith("dashboard_")}
    (may,) = re.findall(r"\| operator \| (.*?): nothing", TEXT)
    said = set(re.sub(r",|and | a schedule now", "", may).split())
    assert said == OPERATORS_ACTIONS
