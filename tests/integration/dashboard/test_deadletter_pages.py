"""Dead letters as pages: grouped, read, closed, and run again as campaigns that are tried dry first."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from homing.config.settings import Settings
from homing.dashboard.app import Dashboard
from homing.deadletters.campaigns import Campaigns
from homing.deadletters.filters import Filter
from homing.deadletters.letters import group_letters, group_newest_letters
from homing.deadletters.runner import CampaignRunner
from homing.ledger.ledger import Ledger
from tests.integration.buried import bury, letter
from tests.integration.dashboard.conftest import send
from tests.integration.dashboard.test_jobs_pages import text_of
from tests.integration.dashboard.world import DEAD_JOB, World

DIED = "Gateway said 503"


async def test_letters_are_grouped_and_each_is_read(viewer: httpx.AsyncClient, world: World) -> None:
    """A group says what, whose, how many, since when and until when; it leads to its letters, and each to its error, payload and job."""
    ids = await bury(world.sql, 3, consumer="pay.capture", error_class="GatewayError", text=DIED, fingerprint="f2")
    groups = await viewer.get("/deadletters")
    text = text_of(groups)
    assert re.search(rf"GatewayError {DIED}\s*pay\.capture\s*3", text), text
    assert "4 open letters" in text
    assert groups.text.count("<polyline") == 2
    assert "/deadletters/redrive" not in groups.text
    found = await viewer.get("/deadletters/list?fingerprint=f2")
    assert all(f'href="/deadletters/{each}"' in found.text for each in ids)
    assert f'href="/deadletters/{world.letter}"' not in found.text
    shown = await viewer.get(f"/deadletters/{world.letter}")
    text = text_of(shown)
    assert "CardDeclined" in text
    assert "no funds" in text
    assert '"password": "••••••"' in text
    assert f'href="/jobs/{DEAD_JOB}"' in shown.text
    assert f"homing deadletters show {world.letter}" in text


async def test_groups_of_the_newest_letters_are_the_groups(settings: Settings, world: World) -> None:
    """The cheap question of the page and the exact one of a dry run agree, and the cheap one says when it did not look at all."""
    for number, fingerprint in ((5, "f2"), (3, "f3"), (1, "f4")):
        await bury(world.sql, number, consumer="pay.capture", fingerprint=fingerprint)
    async with open_ledger(settings) as ledger:
        for chosen in (Filter(), Filter(consumer="pay.capture"), Filter(error_text="503")):
            cheap, exact = await group_newest_letters(ledger, chosen), await group_letters(ledger, chosen)
            names = ("fingerprint", "letters", "consumer", "error_class", "oldest", "newest", "sample")
            assert [[row[name] for name in names] for row in cheap.groups] == [
                [row[name] for name in names] for row in exact.groups
            ]
            assert (cheap.letters, cheap.is_complete) == (exact.letters, True)
        few = await group_newest_letters(ledger, Filter(), walk=4)
        assert ([(row["fingerprint"], row["letters"]) for row in few.groups], few.is_complete) == (
            [("f3", 3), ("f4", 1)],
            False,
        )


async def test_what_one_chooses_is_in_the_address(viewer: httpx.AsyncClient, world: World) -> None:
    """Every condition narrows the list, and the command beside it says the same."""
    await bury(world.sql, 2, consumer="pay.capture", error_class="GatewayError", text=DIED, fingerprint="f2")
    for query, number in (
        ("consumer=pay.capture", 2),
        ("error_class=GatewayError&kind=failed", 2),
        ("error_text=SAID+503", 2),
        ("queue=work", 1),
        ("since=1h&closed=all", 3),
        ("until=1h", 0),
        ("kind=poison", 0),
        ("closed=closed", 0),
        (f"id={world.letter}", 1),
    ):
        page = await viewer.get(f"/deadletters/list?{query}")
        assert page.text.count('<th scope="row">') == number, query
    narrowed = text_of(await viewer.get("/deadletters?consumer=pay.capture&error_class=GatewayError"))
    assert "homing deadletters groups --consumer pay.capture --error-class GatewayError" in narrowed
    for query in ("kind=whatever", "since=yesterday", "since=0001-01-01", "id=x", "after=1e9", "closed=maybe"):
        assert (await viewer.get(f"/deadletters/list?{query}")).status_code == 400, query
    assert (await viewer.get("/deadletters/999999")).status_code == 404


async def test_letters_are_dismissed_with_a_reason(operator: httpx.AsyncClient, world: World) -> None:
    """Asked first, with how many and which; then kept with who and why. What was closed meanwhile is told."""
    ids = await bury(world.sql, 3, consumer="pay.capture")
    chosen = {"id": [str(each) for each in ids[:2]]}
    token = {"token": re.findall(r'name="token" value="([^"]+)"', (await operator.get("/")).text)[0]}
    asked = await operator.post("/deadletters/dismiss", data=token | chosen)
    assert "2 letters" in text_of(asked)
    assert (await letter(world.sql, ids[0]))["closed_as"] is None
    assert (await operator.post("/deadletters/dismiss", data=token | chosen | {"confirmed": "yes"})).status_code == 400
    done = await operator.post(
        "/deadletters/dismiss", data=token | chosen | {"confirmed": "yes", "reason": "paid by hand"}
    )
    assert done.status_code == 303
    assert "2 letters dismissed" in (await operator.get("/deadletters")).text
    everything = {"all": "yes", "consumer": "pay.capture", "id": str(world.letter)}
    again = await operator.post(
        "/deadletters/dismiss", data=token | everything | {"confirmed": "yes", "reason": "that too"}
    )
    assert again.status_code == 303
    assert [(await letter(world.sql, each))["closed_as"] for each in ids] == ["dismissed"] * 3
    assert (await letter(world.sql, world.letter))["closed_as"] is None
    assert [row[:3] for row in await world.actions()] == [("operator", "dismiss", 2), ("operator", "dismiss", 1)]
    assert (await operator.post("/deadletters/dismiss", data=token)).status_code == 400


async def test_a_campaign_is_tried_dry_begun_watched_and_stopped(
    dashboard: Dashboard, settings: Settings, operator: httpx.AsyncClient, world: World
) -> None:
    """The dry run counts and changes nothing; the campaign has its terms and reason; its page follows it; stopping it is kept."""
    await bury(world.sql, 20, consumer="pay.capture", fingerprint="f2")
    dry = await operator.get("/deadletters/redrive?fingerprint=f2")
    assert "20 letters" in text_of(dry)
    assert "homing redrive --fingerprint f2 --canary 5 --dry-run" in text_of(dry)
    assert await world.sql.fetchval("SELECT count(*) FROM homing.redrive_campaigns") == 0
    form = {"confirmed": "yes", "fingerprint": "f2", "canary": "5", "rate": "100000", "stop_after": "0"}
    begun = await send(operator, "/deadletters/redrive", **form, reason="the gateway is back")
    page = begun.headers["location"]
    shown = text_of(await operator.get(page))
    assert "0 of 20 redriven" in shown
    assert "No relay lives" in shown
    async with open_ledger(settings) as ledger:
        campaign = (await Campaigns(ledger).list())[0].campaign
        assert (campaign.terms.canary, campaign.terms.rate, campaign.terms.stop_after) == (5, 100_000, None)
        assert campaign.reason == "the gateway is back"
        await CampaignRunner(ledger).advance(campaign.id)
    shown = text_of(await operator.get(page))
    assert re.search(r"[1-5] of 20 redriven", shown)
    first = await world.sql.fetchrow(
        "SELECT id, event_id FROM homing.dead_letters WHERE closed_as = 'redriven' LIMIT 1"
    )
    assert first is not None
    again = await operator.get(f"/deadletters/{first['id']}")
    assert f'href="/jobs/{first["event_id"]}.2.pay.capture"' in again.text
    for deed, said in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        assert (await send(operator, f"{page}/{deed}", reason=f"{deed} it")).status_code == 303
        assert said in text_of(await operator.get(page))
    assert (await send(operator, f"{page}/stop", reason="again")).status_code == 409
    assert (await send(operator, f"{page}/burn", reason="again")).status_code == 404
    assert [row[3] for row in await world.actions()] == ["the gateway is back", "pause it", "resume it", "stop it"]
    assert "the gateway is back" in (await operator.get("/deadletters/campaigns")).text


async def test_a_campaign_takes_what_was_chosen_and_nothing_else(operator: httpx.AsyncClient, world: World) -> None:
    """No selection is no campaign; every letter is taken only when that is said; terms that make no sense are refused."""
    ids = await bury(world.sql, 3, consumer="pay.capture")
    assert (await send(operator, "/deadletters/redrive")).status_code == 400
    assert "1 letter" in text_of(await send(operator, "/deadletters/redrive", id=str(ids[0])))
    assert "4 letters" in text_of(await send(operator, "/deadletters/redrive", id=str(ids[0]), all="yes"))
    sure = {"confirmed": "yes", "reason": "why not"}
    assert (await send(operator, "/deadletters/redrive", **sure)).status_code == 409
    for wrong in ({"rate": "0"}, {"rate": "1e9"}, {"canary": "-1"}, {"stop_after": "x"}):
        assert (await send(operator, "/deadletters/redrive", **sure, everything="yes", **wrong)).status_code == 400
    begun = await send(operator, "/deadletters/redrive", **sure, everything="yes")
    assert "0 of 4 redriven" in text_of(await operator.get(begun.headers["location"]))


async def test_a_viewer_begins_nothing(viewer: httpx.AsyncClient, world: World) -> None:
    """No button is shown, the dry run is refused, and so is the request itself."""
    page = await viewer.get("/deadletters/list")
    assert "Dismiss" not in page.text
    assert (await viewer.get("/deadletters/redrive")).status_code == 403
    for path in ("/deadletters/redrive", "/deadletters/dismiss"):
        assert (await send(viewer, path, all="yes", everything="yes", confirmed="yes", reason="me")).status_code == 403
    assert await world.actions() == []


async def test_without_a_database_pages_open_and_say_so(dashboard: Dashboard, viewer: httpx.AsyncClient) -> None:
    """A page that asks a server that is away is a page that says which one, not an error."""
    await dashboard.desk.lookout.stop()
    await dashboard.desk.servers.close()
    letters = ("/deadletters", "/deadletters/list", "/deadletters/campaigns", "/deadletters/1")
    for path in (*letters, "/outbox", "/schedules", "/flows", "/workers", "/actions"):
        page = await viewer.get(path)
        assert (page.status_code, "A server is away" in page.text) == (503, True), path


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """The ledger of this test."""
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()
    try:
        yield ledger
    finally:
        await ledger.close()
