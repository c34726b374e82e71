"""The dashboard as its readers meet it: requests to the application, on this test's own servers."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from homing.config.settings import Settings
from homing.dashboard.access import Access, Identity
from homing.dashboard.app import Dashboard
from homing.dashboard.users import Users, make_user
from homing.ledger.actions import Role
from tests.integration.dashboard.world import World, world_on

PASSWORD = "correct horse battery"

SAME_SITE = {"sec-fetch-site": "same-origin", "accept": "text/html"}


@pytest.fixture(scope="session")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A viewer, an operator and an administrator, all with the same password."""
    file = tmp_path_factory.mktemp("users") / "users"
    users = [make_user(role.name.lower(), role, PASSWORD) for role in Role]
    file.write_text("".join(f"{user.line}\n" for user in users), encoding="utf-8")
    return file


@pytest.fixture
async def dashboard(settings: Settings, users_file: Path) -> AsyncIterator[Dashboard]:
    """A dashboard with users; it takes looks by itself."""
    pages = Dashboard(settings, name="shop", access=Access(users=Users(users_file)))
    async with pages.running():
        yield pages


@pytest.fixture
async def anybody(dashboard: Dashboard) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has not logged in."""
    async with browser(dashboard) as client:
        yield client


@pytest.fixture
async def viewer(dashboard: Dashboard) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of a viewer."""
    async with browser(dashboard, Role.VIEWER) as client:
        yield client


@pytest.fixture
async def operator(dashboard: Dashboard) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of an operator."""
    async with browser(dashboard, Role.OPERATOR) as client:
        yield client


@pytest.fixture
async def admin(dashboard: Dashboard) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of an administrator."""
    async with browser(dashboard, Role.ADMIN) as client:
        yield client


def browser(dashboard: Dashboard, role: Role | None = None) -> httpx.AsyncClient:
    """A browser at the dashboard: with a session of that role, without asking for its password."""
    access, cookies = dashboard.desk.access, {}
    if role is not None:
        assert access.users is not None
        user = access.users.find(role.name.lower())
        assert user is not None
        cookies["homing_session"] = access.enter(user, dashboard.desk.seals)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(dashboard, raise_app_exceptions=False),
        base_url="http://ops.example.com",
        cookies=cookies,
        headers=SAME_SITE,
    )


def open_dashboard(settings: Settings) -> Dashboard:
    """A dashboard on a machine of one's own, where nobody logs in."""
    return Dashboard(settings, name="shop", access=Access(local=Identity("ada@desk", Role.ADMIN)))


def token_of(page: httpx.Response) -> str:
    """The token that the forms of a page carry."""
    found = re.search(r'name="token" value="([^"]+)"', page.text)
    assert found is not None, page.text
    return found[1]


async def send(client: httpx.AsyncClient, path: str, *, seen_at: str = "/", **fields: str) -> httpx.Response:
    """Send a form of the page at `seen_at`."""
    token = token_of(await client.get(seen_at))
    return await client.post(path, data={"token": token, **fields})


@pytest.fixture
async def world(settings: Settings) -> AsyncIterator[World]:
    """The small world of `world.py`."""
    async with world_on(settings) as made:
        yield made
