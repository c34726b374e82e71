"""Whatever stands in rows and addresses: every page answers, nothing of it becomes markup, and nobody does what his role does not allow."""

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest
from redis import Redis
from starlette.routing import Route

from homing.config.settings import Settings
from homing.dashboard.app import Dashboard
from homing.dashboard.pages import PAGES
from homing.ledger.actions import Role
from tests.integration.dashboard.conftest import browser, token_of
from tests.integration.dashboard.world import DEAD_JOB, EVENT, World
from tests.integration.poisoned import EVENT as POISONED
from tests.integration.poisoned import HOSTILE, PARKED, poison

MOST_PAGES = 150
LONGEST_PAGE = 600_000
LONGEST_ADDRESS = 60_000
"""What servers and browsers take."""

ENTRANCE = {"/login", "/logout"}

STRANGE = (
    "\x00",
    "\udcff",
    "%",
    "%ff%fe",
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "../../etc/passwd",
    "-1",
    "0",
    "9" * 400,
    "٣",
    "NaN",
    "null",
    "\u202e",
    "x" * 2_000,
    "a:b:c",
    "2026-13-45",
    "9999999999d",
    '"',
)
"""Values that no page expects."""

NAMES = (
    *("q", "queue", "state", "name", "after", "before", "id", "since", "until", "topic", "consumer", "actor", "action"),
    *("kind", "fingerprint", "error_class", "error_text", "letter", "campaign", "next", "page", "sort", "limit"),
)
"""Every name that some page reads, and some that none does."""


def paths(method: str) -> list[str]:
    """The paths of all pages, or of all deeds."""
    return sorted(
        route.path for route in PAGES if isinstance(route, Route) and route.methods and method in route.methods
    )


def filled(path: str, value: str) -> str:
    """A path with this value in each of its places."""
    return re.sub(r"\{[^}]*\}", lambda _: quote(value.encode("utf-8", "surrogateescape"), safe=""), path)


def links_of(page: httpx.Response) -> Iterator[str]:
    """Where a page leads, on this site."""
    for link in re.findall(r'href="([^"]+)"', page.text):
        target = html.unescape(link)
        if target.startswith("/") and not target.startswith("/assets/") and len(target) < LONGEST_ADDRESS:
            yield target


class Markup(HTMLParser):
    """Collects what the policy would not run: handlers, styles and scripts in the page itself, and forms that lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag in ("style", "iframe", "object", "embed", "base") or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        for name in ("href", "src", "action", "formaction"):
            value = given.get(name) or ""
            if (value and not value.startswith(("/", "#"))) or value.startswith("//"):
                self.inline.append(f"{tag} {name}={value[:40]}")


def complaint(page: httpx.Response) -> str | None:
    """What is wrong with a page that shows hostile rows."""
    if page.status_code >= 500:
        said = re.search(r'class="lead">(.{0,200})', page.text, re.DOTALL)
        return f"{page.status_code}: {said[1] if said else page.text[:200]}"
    text = page.text
    if len(text) > LONGEST_PAGE:
        return f"{len(text):,} characters"
    if "<script>alert" in text or "<img src=x" in text:
        return "hostile text became markup"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text):
        return "something that cannot be seen is shown"
    reader = Markup()
    reader.feed(text)
    return None if not reader.inline else f"inline code: {reader.inline}"


async def test_no_row_breaks_a_page(settings: Settings, admin: httpx.AsyncClient, redis_prefix: str) -> None:
    """From the overview every link is followed, through rows and jobs with the worst text that they can hold."""
    poison(settings)
    with Redis.from_url(settings.redis_dsn) as client:
        key = f"{redis_prefix}:plain:"
        for state, job in (("failed", HOSTILE.replace(":", "")), ("completed", "../..?#")):
            strange = {"name": HOSTILE, "data": HOSTILE, "opts": HOSTILE, "failedReason": HOSTILE * 50}
            client.hset(f"{key}{job}", mapping={**strange, "stacktrace": HOSTILE, "timestamp": "1e999", "ats": "x"})
            client.rpush(f"{key}{job}:logs", HOSTILE, "x" * 100_000)
            client.zadd(f"{key}{state}", {job: 1})
    starts = ["/", f"/events/{POISONED}", f"/events/{PARKED}", "/jobs?state=failed", *_plain(paths("GET"))]
    queue, seen, wrong = list(starts), set(starts), {}
    while queue and len(seen) < MOST_PAGES:
        path = queue.pop(0)
        page = await admin.get(path)
        if (found := complaint(page)) is not None:
            wrong[path] = found
        new = [link for link in links_of(page) if link not in seen]
        seen.update(new)
        queue += new
    assert wrong == {}
    assert len(seen) > 20


async def test_no_address_breaks_a_page(admin: httpx.AsyncClient, world: World) -> None:
    """Every page, with strange values in the places of its path and under each of its names: 400 or an answer, never 500."""
    wrong: dict[str, str] = {}
    for path in paths("GET"):
        for address in strange_addresses(path):
            if (found := complaint(await admin.get(address))) is not None:
                wrong[address[:200]] = found
    assert wrong == {}


def strange_addresses(path: str) -> Iterator[str]:
    """Every value in the places of a path; under each name of one without places a value, another one on every page."""
    if "{" in path:
        yield from (filled(path, value) for value in STRANGE)
        return
    for at, name in enumerate(NAMES):
        value = STRANGE[(at * 7 + len(path)) % len(STRANGE)]
        yield f"{path}?{name}={quote(value.encode('utf-8', 'surrogateescape'))}"


async def test_a_viewer_changes_nothing_by_any_request(dashboard: Dashboard, world: World) -> None:
    """Every deed there is, sent with a viewer's own session and token, is refused, and nothing is kept."""
    async with browser(dashboard, Role.VIEWER) as viewer:
        token = token_of(await viewer.get("/"))
        form = {"token": token, "confirmed": "yes", "reason": "let me", "id": DEAD_JOB, "letter": str(world.letter)}
        for path in paths("POST"):
            if path in ENTRANCE:
                continue
            for value in ("work", "retry", "promote", "cancel", "remove", "drain", str(EVENT), "1"):
                asked = path.replace("{queue}", "work") if "{queue}" in path else path
                answer = await viewer.post(filled(asked, value), data=form)
                assert answer.status_code in (400, 403, 404, 405), (asked, value)
            allowed = {
                "{queue}": "work",
                "{removal}": "drain",
                "{deed}": "run" if path.startswith("/schedules") else "retry",
            }
            known = path
            for place, value in allowed.items():
                known = known.replace(place, value)
            if "{" not in known:
                assert (await viewer.post(known, data=form)).status_code == 403, known
        assert await world.actions() == []


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
async def test_no_form_is_taken_without_its_token(dashboard: Dashboard, world: World, role: Role) -> None:
    """Every deed there is wants the token of a page, whatever the role."""
    async with browser(dashboard, role) as client:
        for path in paths("POST"):
            if path != "/login":
                sent = await client.post(filled(path, "work"), data={"confirmed": "yes", "reason": "x", "id": "1"})
                assert sent.status_code == 403, path
        assert await world.actions() == []


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"x" * 1_100_000, "application/x-www-form-urlencoded", 413),
        (b"a=1&" * 20_000, "application/x-www-form-urlencoded", 400),
        (b"{}", "application/json", 400),
        (b"\xff\xfe", "application/x-www-form-urlencoded", 400),
    ],
)
async def test_forms_are_bounded(operator: httpx.AsyncClient, body: bytes, kind: str, status: int) -> None:
    """A form that is too long, has too many fields, or is none is refused."""
    sent = await operator.post("/logout", content=body, headers={"content-type": kind})
    assert sent.status_code == status


def _plain(found: list[str]) -> list[str]:
    return [path for path in found if "{" not in path and path not in ENTRANCE]
