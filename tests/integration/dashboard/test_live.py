"""Pages that stay true: told when there is something new, red within fifteen seconds, and open while servers are away."""

import asyncio
import socket
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from homing.config.settings import Settings
from homing.dashboard.app import Dashboard
from homing.dashboard.live import MOST_VIEWERS, POLL_SECONDS
from homing.dashboard.lookout import LOOK_SECONDS, STALE_SECONDS
from homing.operations.verdict import WAITING_SECONDS
from tests.integration.dashboard.conftest import browser, open_dashboard
from tests.integration.dashboard.test_jobs_pages import text_of
from tests.integration.dashboard.world import DEAD_JOB, PENDING_JOB, QUEUE, World
from tests.waiting import until

RECORD = """
INSERT INTO homing.outbox_events (id, topic, payload, available_at)
VALUES (gen_random_uuid(), 'order.placed', '{}', now() - make_interval(secs => $1))
"""
HERE = {"host": "localhost:9465"}


async def test_the_overview_is_red_within_fifteen_seconds_and_says_why(
    dashboard: Dashboard, viewer: httpx.AsyncClient, world: World
) -> None:
    """An event that waits as long as no relay may leave it is a standstill at the next look, with the remedy, and green when it is gone."""
    assert WAITING_SECONDS + LOOK_SECONDS * 1.1 < 15
    await world.sql.execute("INSERT INTO homing.queues (queue) VALUES ('idle')")
    await world.sql.execute(RECORD, WAITING_SECONDS + 0.5)
    await dashboard.desk.lookout.tick()
    page = await viewer.get("/")
    assert 'class="verdict stalled"' in page.text
    said = text_of(page)
    assert "Work stands still" in said
    assert "Topic order.placed: 1 events wait to be routed, the oldest for" in said
    assert "No relay lives, start homing worker or homing relay" in said
    await world.sql.execute("UPDATE homing.outbox_events SET published_at = now() WHERE published_at IS NULL")
    await dashboard.desk.lookout.tick()
    assert 'class="verdict stalled"' not in (await viewer.get("/")).text


async def test_an_overview_without_a_look_is_not_green(
    dashboard: Dashboard, viewer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that is too old says nothing: nobody knows, and the page says so."""
    assert 'class="verdict flowing"' in (await viewer.get("/")).text
    now = asyncio.get_running_loop().time()
    monkeypatch.setattr("homing.clock.SystemClock.monotonic", lambda _: now + STALE_SECONDS + 3600)
    said = await viewer.get("/")
    assert 'class="verdict stalled"' in said.text
    assert "Nobody knows" in said.text


async def test_viewers_are_told_and_those_too_many_are_told_to_ask(dashboard: Dashboard) -> None:
    """Fifty streams get an event for each look; the next one hears how often to ask; a place that is left can be taken."""
    live, streams = dashboard.live, [dashboard.live.stream() for _ in range(MOST_VIEWERS)]
    assert {await anext(stream) for stream in streams} == {"retry: 2000\n\n"}
    assert live.viewers == MOST_VIEWERS
    assert await body(live) == f"event: poll\ndata: {POLL_SECONDS}\n\n"
    heard = asyncio.gather(*(anext(stream) for stream in streams))
    await asyncio.sleep(0)
    await dashboard.desk.lookout.tick()
    assert all(each.startswith("event: look\n") for each in await heard)
    await streams.pop().aclose()
    assert live.viewers == MOST_VIEWERS - 1
    dashboard.desk.lookout.leave()
    for stream in streams:
        async for _ in stream:
            pass
    assert live.viewers == 0


async def body(live: object) -> str:
    """What one viewer too many hears."""
    response = await live.serve(None)  # type: ignore[attr-defined] # the request is not looked at
    iterator: AsyncIterator[str] = response.body_iterator
    return "".join([each async for each in iterator])


async def test_it_opens_while_postgresql_is_away(settings: Settings) -> None:
    """The overview opens and names the server; other pages are 503 with the same words; all come back with the server."""
    away = settings.model_copy(update={"database_url": f"postgresql://x@{nowhere()}/x"})
    dashboard = open_dashboard(away)
    async with browser(dashboard) as client, dashboard.running():
        page = await client.get("/", headers=HERE)
        assert page.status_code == 200
        assert 'class="verdict stalled"' in page.text
        assert "does not answer" in page.text
        for path in ("/queues", "/jobs", f"/jobs/{DEAD_JOB}", "/search?q=1"):
            failed = await client.get(path, headers=HERE)
            assert failed.status_code == 503, path
            assert "does not answer" in failed.text
            assert "Nothing is lost meanwhile" in failed.text


async def test_it_opens_while_redis_is_away(settings: Settings, world: World) -> None:
    """What the ledger knows is shown, with the outage beside it; only lists of jobs are 503."""
    away = settings.model_copy(update={"redis_url": f"redis://{nowhere()}/0"})
    dashboard = open_dashboard(away)
    async with browser(dashboard) as client, dashboard.running():
        overview = await client.get("/", headers=HERE)
        assert overview.status_code == 200
        assert 'class="verdict stalled"' in overview.text
        queues = await client.get("/queues", headers=HERE)
        assert queues.status_code == 200
        assert 'class="away"' in queues.text
        assert QUEUE in queues.text
        case = await client.get(f"/jobs/{PENDING_JOB}", headers=HERE)
        assert case.status_code == 200
        assert "nothing is lost meanwhile" in text_of(case).lower()
        assert (await client.get("/jobs", headers=HERE)).status_code == 503


async def test_a_ledger_that_is_none_is_told(settings: Settings, empty_database_url: str) -> None:
    """A database without our tables is named with the command that makes them, and the page works as soon as they are there."""
    dashboard = open_dashboard(settings.model_copy(update={"database_url": empty_database_url}))
    async with browser(dashboard) as client, dashboard.running():
        assert "homing migrate" in text_of(await client.get("/", headers=HERE))
        assert (await client.get("/jobs", headers=HERE)).status_code == 503


async def test_it_stops_with_viewers(dashboard: Dashboard) -> None:
    """The end does not wait for those who listen."""
    stream = dashboard.live.stream()
    assert await anext(stream) == "retry: 2000\n\n"
    heard = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    dashboard.desk.lookout.leave()
    await until(heard.done)
    assert [each async for each in stream] == []


def nowhere() -> str:
    """An address of this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def test_the_connection_says_whose_it_is(dashboard: Dashboard, viewer: httpx.AsyncClient, world: World) -> None:
    """PostgreSQL's list of connections names the dashboard."""
    await viewer.get("/")
    names = await names_of(world.sql)
    assert "homing dashboard" in names


async def names_of(sql: asyncpg.Connection) -> set[str]:
    """Who is connected to this database."""
    rows = await sql.fetch("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
    return {row["application_name"] for row in rows}
