"""Closed by default: who gets in, what a session is worth, and which requests change nothing."""

import asyncio
from pathlib import Path

import httpx
import pytest

from homing.clock import ManualClock
from homing.config.settings import Settings
from homing.dashboard.access import Access, Identity
from homing.dashboard.app import Dashboard
from homing.dashboard.throttle import FREE_TRIES, Throttle
from homing.dashboard.users import Users, make_user, write_user
from homing.ledger.actions import Role
from tests.integration.dashboard.conftest import PASSWORD, SAME_SITE, browser, open_dashboard, send, token_of


async def test_nobody_sees_a_page_without_logging_in(anybody: httpx.AsyncClient) -> None:
    """A browser is led to the login and back to where it wanted; a program and a refresh get 401; the style is everybody's."""
    sent = await anybody.get("/queues?after=%2F%2Fevil.example")
    assert sent.status_code == 303
    assert sent.headers["location"] == "/login?next=%2Fqueues%3Fafter%3D%252F%252Fevil.example"
    assert (await anybody.get("/queues", headers={"accept": "*/*"})).status_code == 401
    assert (await anybody.get("/queues", headers={"hx-request": "true"})).status_code == 401
    assert (await anybody.get("/live")).status_code == 303
    assert (await anybody.get("/assets/homing.css")).status_code == 200
    assert (await anybody.get("/assets/../app.py")).status_code in (303, 404)


async def test_a_login_begins_a_session_and_a_logout_ends_it(dashboard: Dashboard, anybody: httpx.AsyncClient) -> None:
    """The cookie is out of reach of scripts and other sites, and worth nothing once its reader has logged out."""
    form = {"name": "operator", "password": PASSWORD, "next": "/queues"}
    entered = await anybody.post("/login", data=form)
    assert (entered.status_code, entered.headers["location"]) == (303, "/queues")
    cookie = entered.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/", "max-age=43200"))
    page = await anybody.get("/")
    assert page.status_code == 200
    assert "operator" in page.text
    session = anybody.cookies["homing_session"]
    left = await anybody.post("/logout", data={"token": token_of(page)})
    assert left.headers["location"] == "/login"
    async with browser(dashboard) as again:
        again.cookies["homing_session"] = session
        assert (await again.get("/")).status_code == 303


@pytest.mark.parametrize(
    "next_", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "javascript:1"]
)
async def test_a_login_leads_nowhere_else(anybody: httpx.AsyncClient, next_: str) -> None:
    """What a link says about where to go on is followed on this site alone."""
    entered = await anybody.post("/login", data={"name": "viewer", "password": PASSWORD, "next": next_})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")


async def test_guessing_is_slowed_down(dashboard: Dashboard, anybody: httpx.AsyncClient) -> None:
    """After a few wrong passwords the right one has to wait, too; a name that nobody has is told no other way."""
    clock = ManualClock()
    object.__setattr__(dashboard.desk, "throttle", Throttle(clock))
    for name in ("operator", *("nobody" for _ in range(FREE_TRIES - 1))):
        wrong = await anybody.post("/login", data={"name": name, "password": "guess"})
        assert (wrong.status_code, "name or password is wrong" in wrong.text) == (403, True)
    waiting = await anybody.post("/login", data={"name": "operator", "password": PASSWORD})
    assert (waiting.status_code, waiting.headers["retry-after"]) == (429, "2")
    clock.ticks += 2
    assert (await anybody.post("/login", data={"name": "operator", "password": PASSWORD})).status_code == 303


async def test_guesses_that_are_sent_at_once_are_slowed_down_too(anybody: httpx.AsyncClient) -> None:
    """They are checked one after the other, and the wrong ones count before the next one is looked at."""
    guesses = (anybody.post("/login", data={"name": "many", "password": f"guess {at}"}) for at in range(FREE_TRIES + 4))
    codes = sorted(answer.status_code for answer in await asyncio.gather(*guesses))
    assert codes == [403] * FREE_TRIES + [429] * 4


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
async def test_another_site_changes_nothing(operator: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """A form that another site sends is refused, whatever cookie and token it has."""
    token = token_of(await operator.get("/"))
    if "origin" in headers:
        del operator.headers["sec-fetch-site"]
    assert (await operator.post("/logout", data={"token": token}, headers=headers)).status_code == 403
    assert (await operator.get("/")).status_code == 200


async def test_a_form_is_bound_to_its_reader(operator: httpx.AsyncClient, viewer: httpx.AsyncClient) -> None:
    """No token, a made-up one and somebody else's are refused, and the reader stays logged in."""
    for token in ("", "x.y.z", token_of(await viewer.get("/"))):
        assert (await operator.post("/logout", data={"token": token})).status_code == 403
    assert (await operator.get("/")).status_code == 200
    assert (await send(operator, "/logout")).status_code == 303


async def test_a_user_who_is_changed_is_logged_out(settings: Settings, tmp_path: Path) -> None:
    """A new role or password ends every session of the old one, at once and without a restart; a forged cookie is nobody's."""
    file = tmp_path / "users"
    write_user(file, make_user("ada", Role.ADMIN, PASSWORD))
    assert file.stat().st_mode & 0o077 == 0
    access = Access(users=Users(file))
    dashboard = Dashboard(settings, name="shop", access=access)
    user = access.users.find("ada") if access.users else None
    assert user is not None
    session = access.enter(user, dashboard.desk.seals)
    async with browser(dashboard) as client, dashboard.running():
        client.cookies["homing_session"] = session
        assert (await client.get("/")).status_code == 200
        write_user(file, make_user("ada", Role.VIEWER, PASSWORD))
        assert (await client.get("/")).status_code == 303
        client.cookies["homing_session"] = f"{session}x"
        assert (await client.get("/")).status_code == 303


async def test_a_program_shows_a_token(settings: Settings) -> None:
    """A bearer token opens pages and sends forms without a token of their own; a wrong one opens nothing."""
    dashboard = Dashboard(settings, name="shop", access=Access(token="t" * 20, token_role=Role.OPERATOR))
    async with browser(dashboard) as client, dashboard.running():
        right = {"authorization": f"Bearer {'t' * 20}"}
        assert (await client.get("/", headers=right)).status_code == 200
        assert (await client.get("/", headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await client.get("/")).status_code == 401
        assert (await client.post("/logout", data={}, headers=right)).status_code == 303


async def test_the_application_may_say_who_it_is(settings: Settings) -> None:
    """With a sign-on of the application, whoever it names is in, with that role, and nobody else."""

    def sign_on(connection: httpx.Request) -> Identity | None:
        name = connection.headers.get("x-user")
        return Identity(name, Role.VIEWER) if name else None

    dashboard = Dashboard(settings, name="shop", access=Access(sign_on=sign_on))  # type: ignore[arg-type] # headers are alike
    async with browser(dashboard) as client, dashboard.running():
        assert (await client.get("/")).status_code == 401
        page = await client.get("/", headers={"x-user": "grace"})
        assert (page.status_code, "grace" in page.text) == (200, True)


async def test_where_nobody_logs_in_only_this_machine_is_served(settings: Settings) -> None:
    """A name that another site lets point to this machine reaches nothing."""
    dashboard = open_dashboard(settings)
    async with browser(dashboard) as client, dashboard.running():
        assert (await client.get("/", headers={"host": "evil.example:9465"})).status_code == 403
        for host in ("localhost:9465", "127.0.0.1:9465", "[::1]:9465"):
            assert (await client.get("/", headers={"host": host})).status_code == 200


async def test_browsers_may_do_nothing_but_show_the_page(operator: httpx.AsyncClient) -> None:
    """The policy allows our own files alone, and no page needs more: it has no inline script, style or handler."""
    page = await operator.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert not [part for part in ("<style", " style=", " onclick=", "javascript:", "<script>") if part in page.text]


async def test_it_works_below_a_path(settings: Settings, users_file: Path) -> None:
    """With a prefix every address and cookie is below it, whether or not the proxy strips it."""
    dashboard = Dashboard(settings, name="shop", access=Access(users=Users(users_file)), prefix="/ops/homing")
    async with browser(dashboard, Role.VIEWER) as client, dashboard.running():
        for path in ("/", "/ops/homing/"):
            page = await client.get(path)
            assert page.status_code == 200
            assert 'href="/ops/homing/queues"' in page.text
            assert not [link for link in page.text.split('href="')[1:] if not link.startswith(("/ops/homing/", "#"))]
        client.cookies.clear()
        sent = await client.get("/ops/homing/queues", headers=SAME_SITE)
        assert sent.headers["location"] == "/ops/homing/login?next=%2Fqueues"
        entered = await client.post("/ops/homing/login", data={"name": "viewer", "password": PASSWORD})
        assert "path=/ops/homing" in entered.headers["set-cookie"].lower()
