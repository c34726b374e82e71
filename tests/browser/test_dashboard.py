"""The dashboard in a real browser: what an operator does at night, what a viewer cannot, and that everybody can use it.

One server and one browser serve all tests of this file; each test brings its own orders and letters.
"""

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from redis import Redis

from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres, EmbeddedValkey
from tests.browser.chromium import WAIT_MS, BrowserIsMissingError, chromium, find_chromium, listen
from tests.browser.stage import CAPTURE, PASSWORD, Stage, decorate, liven, stage_on
from tests.own_servers import fresh_ledger
from tests.system import quick
from tests.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

expect.set_options(timeout=WAIT_MS)

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("SCREENSHOTS", HERE.parents[1] / ".homing" / "screenshots"))

WIDE, NARROW = {"width": 1360, "height": 860}, {"width": 375, "height": 700}

AXE = (HERE / "axe-core" / "axe.min.js").read_text(encoding="utf-8")

HIDE = """
hidden => {
  Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}
"""

FOLD = "document.querySelectorAll('details[open]').forEach(each => each.removeAttribute('open'))"
"""Stacks name folders of the machine that takes the picture."""

ASK_AXE = """
rules => axe.run(document, {resultTypes: ['violations'], ...(rules && {runOnly: {type: 'rule', values: rules}})}).then(found => found.violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .map(each => `${each.id}: ${each.help}: ${each.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')}`))
"""


@pytest.fixture(scope="module", autouse=True)
def _has_browser() -> None:
    """Everything here is left out, aloud, where there is no Chromium."""
    try:
        find_chromium()
    except BrowserIsMissingError as error:
        pytest.skip(f"THE BROWSER IS LEFT OUT: {error}")


@pytest.fixture(scope="module")
def stage_settings(postgres_server: EmbeddedPostgres, valkey_server: EmbeddedValkey) -> Iterator[Settings]:
    """A ledger and a prefix for all tests here."""
    url = fresh_ledger(postgres_server)
    yield quick(Settings(database_url=url, redis_url=valkey_server.url(), prefix="browser"))
    with Redis.from_url(valkey_server.url()) as client:
        for key in client.scan_iter(match="browser:*", count=1000):
            client.unlink(key)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(stage_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The one server."""
    async with stage_on(stage_settings, tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(_has_browser: None) -> AsyncIterator[Browser]:
    """The one browser."""
    async with chromium() as opened:
        yield opened


@asynccontextmanager
async def visiting(browser: Browser, stage: Stage, name: str, *, narrow: bool = False) -> AsyncIterator[Page]:
    """A page of somebody who has logged in; at its end nothing was refused by the policy, and no script has failed."""
    context = await browser.new_context(base_url=stage.url, viewport=NARROW if narrow else WIDE, color_scheme="light")  # type: ignore[arg-type] # a dict is one
    context.set_default_timeout(WAIT_MS)
    try:
        page = await context.new_page()
        complaints = listen(page)
        await page.goto("/login")
        await page.get_by_label("Name").fill(name)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.wait_for_load_state()  # its scripts have run
        yield page
        assert complaints == []
    finally:
        await context.close()


async def confirm(page: Page, button: str, reason: str) -> None:
    """Say why, and do it."""
    await page.get_by_label("Reason").first.fill(reason)
    await page.get_by_role("button", name=button).last.click()


async def test_a_failed_job_is_found_read_redriven_and_seen_to_complete(browser: Browser, stage: Stage) -> None:
    """From the list of failed jobs to the reason, to its redrive with a reason, to the page that turns by itself when it is done."""
    job_id = await stage.fail_one(7001)
    async with visiting(browser, stage, "operator") as page:
        await page.get_by_role("link", name="Jobs", exact=False).first.click()
        await page.get_by_role("link", name=re.compile("^failed")).click()
        await page.locator("tr", has_text=job_id).get_by_role("link").first.click()
        await expect(page.locator(".verdict")).to_contain_text("card_declined")
        await page.get_by_role("button", name="Redrive…").click()
        await expect(page.locator(".figure")).to_have_text("1 delivery")
        await confirm(page, "Redrive", "the card was replaced")
        await expect(page.locator(".verdict .state")).to_have_text("done")
        assert ".2.payments.capture" in page.url
        await page.goto("/actions")
        await expect(page.locator("tbody tr").first).to_contain_text("the card was replaced")
    assert 7001 in stage.gateway.captured


async def test_a_queue_is_paused_and_resumed(browser: Browser, stage: Stage) -> None:
    """A pause holds its jobs back, and is seen; what waited runs after the resume."""
    async with visiting(browser, stage, "operator") as page:
        await page.goto("/queues/mail")
        await confirm(page, "Pause mail", "the provider is down")
        await expect(page.locator(".held")).to_contain_text("paused")
        await page.goto("/queues")
        await expect(page.locator("tr", has_text="mail").locator(".state.paused")).to_be_visible()
        await page.goto("/queues/mail")
        await confirm(page, "Resume mail", "it is back")
        await expect(page.locator(".held")).to_contain_text("Nothing holds it back")


async def test_fifty_letters_are_redriven_with_a_canary(browser: Browser, stage: Stage) -> None:
    """A group, its dry run, a canary of five, and a bar that fills by itself until all fifty are done."""
    await stage.bury(50, "fifty")
    async with visiting(browser, stage, "operator") as page:
        await page.goto("/deadletters?fingerprint=fifty")
        await page.locator("tbody tr").get_by_role("link", name="Redrive…").click()
        await expect(page.locator(".figure")).to_have_text("50 letters")
        await page.get_by_label("Canary").fill("5")
        await page.get_by_label("Rate").fill("1000")
        await confirm(page, "Redrive 50 letters", "the gateway is back")
        await expect(page.locator(".verdict .state")).to_have_text("finished")
        await expect(page.locator(".legend .good")).to_have_text("50 done")
        await expect(page.locator("dl.list")).to_contain_text("5 letters, passed")
    assert (
        await stage.system.sql.fetchval(
            "SELECT count(*) FROM homing.dead_letters WHERE fingerprint = 'fifty' AND closed_as IS NULL"
        )
        == 0
    )


async def test_a_viewer_sees_everything_and_does_nothing(browser: Browser, stage: Stage) -> None:
    """No button is there; the same request, sent from the page itself with its own token, is refused."""
    job_id = await stage.fail_one(7002)
    async with visiting(browser, stage, "viewer") as page:
        await page.goto(f"/jobs/{job_id}")
        await expect(page.locator(".verdict")).to_contain_text("card_declined")
        for path in (f"/jobs/{job_id}", "/queues/mail", "/deadletters/list", "/schedules"):
            await page.goto(path)
            assert await page.locator("main form[method=post] button").count() == 0, path
        status = await page.evaluate(
            """async () => (await fetch('/queues/mail/pause', {method: 'POST', redirect: 'manual', headers: {'content-type':
            'application/x-www-form-urlencoded'}, body: new URLSearchParams({token: document.querySelector('[name=token]').value, reason: 'x'})})).status"""
        )
        assert status == 403
        await page.goto("/queues/mail")
    terms = await stage.system.engine.terms("mail")
    assert not terms.paused


async def test_the_keyboard_is_enough(browser: Browser, stage: Stage) -> None:
    """Keys lead to places, through rows and into one; the search is a key away; the theme is kept."""
    await stage.bury(2, "keys")
    async with visiting(browser, stage, "operator") as page:
        await page.keyboard.press("g")
        await page.keyboard.press("d")
        await expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
        await page.wait_for_load_state()
        await page.keyboard.press("j")
        await expect(page.locator("tr.at")).to_have_count(1)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/deadletters/list?*")
        await page.keyboard.press("/")
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await page.keyboard.type("topic:order.placed number=1")
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr", has_text=CAPTURE).first).to_be_visible()
        await page.wait_for_load_state()
        await page.locator("main").focus()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        for expected in ("light", "dark"):
            await page.get_by_role("button", name=re.compile("^Theme")).click()
            await expect(page.locator("html")).to_have_attribute("data-theme", expected)
        await page.reload()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_a_hidden_tab_rests(browser: Browser, stage: Stage) -> None:
    """While nobody can see it a page listens to nothing; when it is shown again it is live, and new at once."""
    async with visiting(browser, stage, "viewer") as page:
        await expect(page.locator("#pulse")).to_have_text("live")
        viewers = stage.dashboard.live.viewers
        await page.evaluate(HIDE, True)
        await expect(page.locator("#pulse")).to_have_text("paused")
        await until(lambda: stage.dashboard.live.viewers < viewers, 30, "the stream has ended")
        await page.evaluate("document.getElementById('live').dataset.old = 'yes'")
        await page.evaluate(HIDE, False)
        await expect(page.locator("#live:not([data-old])")).to_be_visible()
        await expect(page.locator("#pulse")).to_have_text("live")


@pytest.mark.timeout(900)
async def test_every_page_is_accessible_in_light_dark_and_narrow(browser: Browser, stage: Stage) -> None:
    """No page has a serious fault by axe in either theme, none is wider than a telephone; each leaves its picture in a folder."""
    pages = await decorate(stage)
    if "SCREENSHOTS" in os.environ:
        await liven(stage)
    faults: dict[str, list[str]] = {}
    async with visiting(browser, stage, "admin") as page:
        for name, path in pages.items():
            await page.goto(path)
            await page.evaluate(FOLD)
            await page.evaluate(AXE)
            for theme in ("light", "dark"):
                await page.emulate_media(color_scheme=theme)
                found = await page.evaluate(ASK_AXE, None if theme == "light" else ["color-contrast"])
                if found:
                    faults[f"{name} in {theme}"] = found
                await page.screenshot(path=FOLDER / f"{name}-{theme}.png")
            await page.set_viewport_size(NARROW)  # type: ignore[arg-type] # a dict is one
            wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            if wider > 0:
                faults[f"{name}, narrow"] = [f"{wider} pixels too wide"]
            await page.set_viewport_size(WIDE)  # type: ignore[arg-type] # a dict is one
    assert faults == {}, "\n".join(sorted({each for found in faults.values() for each in found}))
