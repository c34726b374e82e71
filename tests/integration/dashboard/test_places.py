"""Outbox, workers, flows and actions as pages: what is shown, what is found, and what is done."""

import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest

from homing.config.settings import Settings
from homing.dashboard.pages.workers import read_doing
from homing.ids import JobId
from homing.operations.overview import ProcessState
from homing.queue.flows import FlowJob
from homing.queue.job import NewJob
from homing.queue.parent import JobRef, Parent
from tests.integration.dashboard.conftest import browser, open_dashboard, send
from tests.integration.dashboard.test_jobs_pages import text_of
from tests.integration.dashboard.world import PENDING_JOB, QUEUE, World

RECORD = """
INSERT INTO homing.outbox_events (id, topic, aggregate_id, payload, available_at, parked_error)
VALUES ($1, $2, 'order-7', '{}', now() + make_interval(secs => $3), $4)
"""
SCHEDULE = """
INSERT INTO homing.schedules (queue, schedule, source, job_name, data, options, cron, next_ms)
VALUES ('work', 'nightly', 'code', 'do', '{}', '{}', '0 3 * * *', 1900000000000)
"""
BEAT = """
INSERT INTO homing.workers (id, host, pid, version, role, routes, consumers, queues, state)
VALUES (gen_random_uuid(), $1, 17, '1.0', $2, $3, '{work.do}', '{work}', $4::text::jsonb)
"""


async def record(world: World, topic: str, *, later: float = 0.0, error: str | None = None) -> UUID:
    """An event that is not routed."""
    event = uuid4()
    await world.sql.execute(RECORD, event, topic, later, error)
    return event


async def test_the_outbox_says_what_is_on_its_way_and_what_is_not(viewer: httpx.AsyncClient, world: World) -> None:
    """Each state lists its own events and why they are there, by topic and by time; others are not among them."""
    events = {
        "unpublished": await record(world, "order.placed"),
        "scheduled": await record(world, "order.placed", later=3600),
        "unroutable": await record(world, "order.lost"),
        "parked": await record(world, "order.placed", error="no object: [1]"),
    }
    why = {
        "unpublished": "the relay has not come to it",
        "scheduled": "it is scheduled",
        "unroutable": "nobody subscribes",
    }
    for state, event in events.items():
        page = await viewer.get(f"/outbox?state={state}")
        assert f'href="/events/{event}"' in page.text
        assert why.get(state, "no object: [1]") in text_of(page)
        assert (state == "parked") == (f'href="/events/{events["parked"]}"' in page.text)
        assert "Release" not in page.text
    assert f'href="/events/{events["unroutable"]}"' not in (await viewer.get("/outbox?topic=order.placed")).text
    assert f'href="/events/{events["scheduled"]}"' not in (await viewer.get("/outbox?state=published")).text
    for query in ("state=gone", "since=never", "after=x"):
        assert (await viewer.get(f"/outbox?{query}")).status_code == 400, query
    assert (await viewer.get(f"/outbox?after={uuid4()}")).status_code == 404


async def test_parked_events_are_released_with_a_reason(operator: httpx.AsyncClient, world: World) -> None:
    """Some, or all of a topic; asked first; what is not parked is a conflict that changes nothing."""
    parked = [await record(world, "order.placed", error="broken") for _ in range(3)]
    other = await record(world, "order.lost", error="broken")
    asked = await send(operator, "/outbox/release", id=str(parked[0]))
    assert "1 event" in text_of(asked)
    sure = {"confirmed": "yes", "reason": "mended"}
    assert (await send(operator, "/outbox/release", id=str(parked[0]), **sure)).status_code == 303
    assert (await send(operator, "/outbox/release", id=str(parked[0]), **sure)).status_code == 409
    assert (await send(operator, "/outbox/release", id=str(uuid4()), **sure)).status_code == 404
    every = {"all": "yes", "state": "parked", "topic": "order.placed"}
    assert "2 events" in text_of(await send(operator, "/outbox/release", **every))
    assert (await send(operator, "/outbox/release", **every, **sure)).status_code == 303
    assert (await send(operator, "/outbox/release", **(every | {"state": "unpublished"}), **sure)).status_code == 400
    left = await world.sql.fetch("SELECT id FROM homing.outbox_events WHERE parked_error IS NOT NULL")
    assert [row["id"] for row in left] == [other]
    assert [row[1:3] for row in await world.actions()] == [("release", 1), ("release", 2)]


async def test_workers_say_what_they_run_and_how_their_loops_do(viewer: httpx.AsyncClient, world: World) -> None:
    """Runs by queue, the lag of the loop, why one is not ready, and that no relay lives."""
    well = {"live": True, "ready": True, "lag_seconds": 0.004, "running": {"work": 3}, "slots": {"work": 10}}
    await world.sql.execute(BEAT, "alpha", "worker", False, json.dumps(well))
    unwell = {"live": True, "ready": False, "reasons": ["Redis is away"], "lag_seconds": 1.5}
    await world.sql.execute(BEAT, "beta", "worker", False, json.dumps(unwell))
    text = text_of(await viewer.get("/workers"))
    assert "No relay lives" in text
    assert "alpha:17" in text
    assert "work 3 of 10" in text
    assert "4ms" in text
    assert "not ready" in text
    assert "Redis is away" in text
    await world.sql.execute(BEAT, "gamma", "relay", True, "{}")
    assert "No relay lives" not in text_of(await viewer.get("/workers?since=day"))


@pytest.mark.parametrize(
    "state", ["[]", "null", '"x"', '{"running": 1, "slots": [], "lag_seconds": "x", "reasons": {}, "stuck": {}}']
)
def test_whatever_a_process_says_is_shown(state: str) -> None:
    """A heartbeat of another version, or of nobody, is a process of which little is known."""
    doing = read_doing(
        ProcessState(
            id="1",
            host="here",
            pid=1,
            version="9",
            role="worker",
            routes=False,
            consumers=(),
            queues=("work",),
            started_at=datetime.now(UTC),
            silent_seconds=1.0,
            state=json.loads(state),
        )
    )
    assert (doing.running, doing.lag_seconds, doing.reasons, doing.stuck) == (0, None, (), 0)


async def test_a_flow_is_shown_as_a_tree(viewer: httpx.AsyncClient, world: World) -> None:
    """Jobs that wait for others are listed; each leads to its tree, from its root, with what its children came to."""
    await world.add("alone")
    root = JobRef(QUEUE, JobId("order-9"))
    parent = NewJob(id=root.id, name="ship", data="{}", timestamp_ms=0)
    packs = [
        NewJob(id=JobId(f"pack-{at}"), name="pack", data="{}", timestamp_ms=0, parent=Parent(root)) for at in range(2)
    ]
    await world.engine.add_flow(
        [FlowJob(queue=QUEUE, job=parent, waits=True), *(FlowJob(queue=QUEUE, job=each) for each in packs)]
    )
    listed = await viewer.get("/flows")
    assert 'href="/flows/tree?id=order-9&amp;queue=work"' in listed.text
    for asked in ("order-9", "pack-1"):
        tree = await viewer.get(f"/flows/tree?id={asked}&queue={QUEUE}")
        assert tree.text.count("<bdi>pack</bdi>") == 2
        assert "waited for" in text_of(tree)
    assert "waits for no other" in text_of(await viewer.get("/flows/tree?id=alone"))
    assert (await viewer.get("/flows/tree")).status_code == 400
    assert (await viewer.get("/flows/tree?id=nobody")).status_code == 404


async def test_what_people_did_is_found_again(operator: httpx.AsyncClient, world: World) -> None:
    """Who, what, to what, how many and why, with links to what it was done to; by person, deed and time."""
    await send(operator, f"/queues/{QUEUE}/pause", reason="the gateway is down")
    await send(operator, "/do/cancel", id=PENDING_JOB, confirmed="yes", reason="the customer left")
    page = await operator.get("/actions")
    assert "the gateway is down" in page.text
    assert f'href="/queues/{QUEUE}"' in page.text
    only = text_of(await operator.get("/actions?action=cancel&actor=operator&since=1h"))
    assert "the customer left" in only
    assert "the gateway is down" not in only
    assert "homing actions list --actor operator --action cancel" in only
    assert "Nobody did anything that fits" in text_of(await operator.get("/actions?actor=nobody"))
    for query in ("since=never", "after=x", f"after={2**70}", f"actor={'x' * 201}"):
        assert (await operator.get(f"/actions?{query}")).status_code == 400, query


async def test_without_redis_everything_else_is_there(settings: Settings, world: World) -> None:
    """Pages of the ledger open as ever; schedules are as they were seen last, and say so; a flow says which server is away."""
    await world.sql.execute(SCHEDULE)
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    dashboard = open_dashboard(away)
    async with browser(dashboard) as client, dashboard.running():
        client.headers["host"] = "localhost"
        for path in ("/outbox", "/deadletters", "/deadletters/list", "/deadletters/campaigns", "/workers", "/actions"):
            assert (await client.get(path)).status_code == 200, path
        schedules = text_of(await client.get("/schedules"))
        assert "nightly" in schedules
        assert "The engine does not answer" in schedules
        flow = await client.get("/flows/tree?id=order-9")
        assert flow.status_code == 503
        assert "A server is away" in flow.text


async def test_a_refusal_leads_back_to_where_one_was(operator: httpx.AsyncClient, world: World) -> None:
    """A conflict is told with a link to the page that was left, as the form says or the browser; never to another site."""
    letter = f"/deadletters/{world.letter}"
    sure = {"letter": str(world.letter), "confirmed": "yes", "reason": "again"}
    assert (await send(operator, "/redrive", **sure)).status_code == 303
    for back, wanted in ((letter, letter), ("//evil.example", "/"), ("", "/")):
        refused = await send(operator, "/redrive", **sure, back=back)
        assert refused.status_code == 409
        assert "was closed as redriven by operator" in text_of(refused)
        assert f'href="{wanted}">Back to where you were' in refused.text
    operator.headers["referer"] = f"http://ops.example.com{letter}?a=1"
    assert f'href="{letter}?a=1">Back to where you were' in (await send(operator, "/redrive", **sure)).text
    operator.headers["referer"] = f"http://evil.example{letter}"
    assert 'href="/">Back to where you were' in (await send(operator, "/redrive", **sure)).text
