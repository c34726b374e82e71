"""The dashboard inside somebody's own application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from homing.config.settings import Settings
from homing.dashboard import Access, Dashboard, Identity, Role
from tests.integration.dashboard.conftest import SAME_SITE, token_of
from tests.integration.dashboard.world import QUEUE, World


async def test_it_is_mounted_with_the_sign_on_of_the_application(settings: Settings, world: World) -> None:
    """Below its path everything works, links and forms included; who is in, the application says; it closes with the lifespan."""

    async def sign_on(connection: HTTPConnection) -> Identity | None:
        name = connection.headers.get("x-forwarded-user")
        return None if name is None else Identity(name, Role.OPERATOR)

    dashboard = Dashboard(settings, name="shop", access=Access(sign_on=sign_on))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with dashboard.running():
            yield

    app = Starlette(routes=[Mount("/ops/homing", dashboard)], lifespan=lifespan)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop.example.com", headers=SAME_SITE) as client,
    ):
        path = f"/ops/homing/queues/{QUEUE}"
        assert (await client.get(path)).status_code == 401
        client.headers["x-forwarded-user"] = "grace"
        page = await client.get(path)
        assert f'action="{path}/pause"' in page.text
        assert 'src="/ops/homing/assets/homing.js' in page.text
        done = await client.post(f"{path}/pause", data={"token": token_of(page), "reason": "a look at the bank"})
        assert (done.status_code, done.headers["location"]) == (303, path)
        assert await world.actions() == [("grace", "pause", 1, "a look at the bank")]
    assert dashboard.desk.lookout.is_closing


async def test_it_begins_by_itself_where_nobody_starts_it(settings: Settings) -> None:
    """An application without a lifespan gets pages all the same."""
    dashboard = Dashboard(settings, name="shop", access=Access(token="t" * 20))
    headers = {**SAME_SITE, "authorization": f"Bearer {'t' * 20}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(Starlette(routes=[Mount("/ops", dashboard)])),
        base_url="http://x",
        headers=headers,
    ) as client:
        assert 'class="verdict flowing"' in (await client.get("/ops/")).text
    await dashboard.stop()
