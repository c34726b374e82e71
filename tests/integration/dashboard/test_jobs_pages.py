"""Jobs and queues as pages: found, read, and steered with a reason that is kept."""

import html
import re

import httpx
import pytest

from homing.ids import JobId
from homing.queue.flows import FlowJob
from homing.queue.job import NewJob
from homing.queue.parent import JobRef, Parent
from homing.queue.port import Limit
from tests.integration.dashboard.conftest import send
from tests.integration.dashboard.world import (
    CONSUMER,
    DEAD_JOB,
    EVENT,
    ORDER,
    PENDING,
    PENDING_JOB,
    QUEUE,
    TRACE,
    World,
)


async def test_an_order_is_followed_by_three_clicks(viewer: httpx.AsyncClient, world: World) -> None:
    """From what a customer says to the reason: the order, its event, the delivery that died; also from the trace of the request."""
    for words in (ORDER, f"order:{ORDER}", TRACE, f"trace:{TRACE}", "customer.id=42", "topic:order.placed total=1042"):
        found = await viewer.get("/search", params={"q": words})
        assert f'href="/events/{EVENT}"' in found.text, words
        assert f'href="/jobs/{DEAD_JOB}"' in found.text, words
    event = await viewer.get(f"/events/{EVENT}")
    assert f'href="/jobs/{DEAD_JOB}"' in event.text
    case = text_of(await viewer.get(f"/jobs/{DEAD_JOB}"))
    assert "CardDeclined: no funds" in case
    assert re.search(r"recorded.*routed.*opened.*died: failed", case, re.DOTALL)


async def test_an_id_leads_to_its_case_file(viewer: httpx.AsyncClient, world: World) -> None:
    """Job ids, event ids and ids of other producers' jobs need no sign; what nobody knows is said to be nowhere."""
    await world.add("m17")
    for words, place in (
        (DEAD_JOB, f"/jobs/{DEAD_JOB}"),
        (str(EVENT), f"/events/{EVENT}"),
        ("m17", "/jobs/m17?queue=work"),
    ):
        assert (await viewer.get("/search", params={"q": words})).headers["location"] == place
    assert "None of the 2 events" in (await viewer.get("/search", params={"q": "nothing"})).text
    deliveries = await viewer.get("/search", params={"q": f"consumer:{CONSUMER} outcome:dead"})
    assert DEAD_JOB in deliveries.text
    assert PENDING_JOB not in deliveries.text


async def test_a_case_file_says_why(viewer: httpx.AsyncClient, world: World) -> None:
    """What holds it up and until when, its data without secrets, its siblings, its trace, and the same as a command."""
    page = await viewer.get(f"/jobs/{PENDING_JOB}")
    case = text_of(page)
    assert "Why it is not running" in case
    assert "It was put off and is due in" in case
    assert "hunter2" not in page.text
    assert '"password": "••••••"' in case
    assert f"homing jobs explain {PENDING_JOB}" in case
    assert TRACE in case
    dead = text_of(await viewer.get(f"/jobs/{DEAD_JOB}"))
    assert "mail.send" in dead
    assert "at capture" in dead
    assert (await viewer.get(f"/jobs/{EVENT}")).headers["location"] == f"/events/{EVENT}"
    assert (await viewer.get("/jobs/nothing")).status_code == 404
    assert (await viewer.get(f"/events/{str(EVENT)[:-1]}f")).status_code == 404


async def test_an_id_that_two_queues_have_is_asked_about(viewer: httpx.AsyncClient, world: World) -> None:
    """Neither is taken for the other: the page leads to both."""
    await world.sql.execute("INSERT INTO homing.queues (queue) VALUES ('other')")
    await world.add("m17")
    await world.engine.add("other", [NewJob(id=JobId("m17"), name="do", data="{}", timestamp_ms=0)])
    asked = await viewer.get("/jobs/m17")
    assert asked.status_code == 300
    assert [f"/jobs/m17?queue={name}" in asked.text for name in ("work", "other", "mail")] == [True, True, False]
    assert (await viewer.get("/jobs/m17?queue=other")).status_code == 200
    assert (await viewer.get("/search?q=m17")).headers["location"] == "/jobs/m17"


async def test_jobs_are_listed_by_what_the_address_says(viewer: httpx.AsyncClient, world: World) -> None:
    """By queue, state and name, page by page; every state with its number; the filter stays in every link."""
    await world.add(*(f"w{number:02}" for number in range(60)))
    everything = await viewer.get("/jobs", params={"queue": QUEUE, "name": "do"})
    assert len(re.findall(r'class="id"', everything.text)) == 50
    after = re.search(r'href="([^"]*after=[^"]*)">Next page', everything.text)
    assert after is not None
    rest = await viewer.get(html.unescape(after[1]))
    assert len(re.findall(r'class="id"', rest.text)) == 12
    failed = await viewer.get("/jobs", params={"state": "failed"})
    assert DEAD_JOB in failed.text
    assert PENDING_JOB not in failed.text
    assert "No job fits" in (await viewer.get("/jobs", params={"name": "other"})).text
    assert (await viewer.get("/jobs", params={"queue": "wrk"})).status_code == 404
    assert (await viewer.get("/jobs", params={"after": "w3"})).status_code == 400


async def test_a_failed_job_is_asked_about_and_retried(operator: httpx.AsyncClient, world: World) -> None:
    """First the number and the id, then the deed with its reason; without a reason nothing happens; a second time is answered in place."""
    path = f"/jobs/{DEAD_JOB}"
    asked = await send(operator, "/do/retry", seen_at=path, id=DEAD_JOB)
    assert "Retry 1 job?" in text_of(asked)
    assert DEAD_JOB in asked.text
    assert (await send(operator, "/do/retry", seen_at=path, id=DEAD_JOB, confirmed="yes")).status_code == 400
    assert await world.actions() == []
    done = await send(operator, "/do/retry", seen_at=path, id=DEAD_JOB, confirmed="yes", reason="the bank is back")
    assert (done.status_code, done.headers["location"]) == (303, path)
    assert "retry: waits to run again" in text_of(await operator.get(path))
    assert await world.actions() == [("operator", "retry", 1, "the bank is back")]
    again = await send(operator, "/do/retry", seen_at=path, id=DEAD_JOB, confirmed="yes", reason="again")
    assert again.status_code == 200
    assert "left as it is: it is not among the failed jobs" in text_of(again)
    assert f'href="{path}"' in again.text


async def test_all_that_fit_are_counted_and_cancelled(operator: httpx.AsyncClient, world: World) -> None:
    """A filter chooses what fits now; the number is told before; deliveries are settled and leave the engine."""
    asked = await send(operator, "/do/cancel", seen_at="/jobs?state=delayed", all="yes", state="delayed", queue=QUEUE)
    assert "Cancel 1 job?" in text_of(asked)
    form = {"all": "yes", "state": "delayed", "queue": QUEUE, "confirmed": "yes", "reason": "ordered by mistake"}
    done = await send(operator, "/do/cancel", seen_at="/jobs?state=delayed", **form)
    assert done.status_code == 303
    assert (await world.engine.counts(QUEUE)).delayed == 0
    assert "settled: cancelled" in text_of(await operator.get(f"/jobs/{PENDING_JOB}"))
    assert "cancelled" in text_of(await operator.get(f"/events/{PENDING}"))
    assert (await send(operator, "/do/cancel", seen_at="/jobs?state=failed", all="yes")).status_code == 400
    assert (await send(operator, "/do/cancel", seen_at="/jobs?state=failed")).status_code == 400
    assert (await send(operator, "/do/vanish", seen_at="/jobs?state=failed", id="1")).status_code == 404


async def test_a_dead_delivery_is_redriven_once(operator: httpx.AsyncClient, world: World) -> None:
    """The letter is closed with a reason, the new generation has a case file, and a second try is a conflict that says what happened."""
    path, form = f"/jobs/{DEAD_JOB}", {"letter": str(world.letter), "confirmed": "yes", "reason": "mended"}
    assert "Redrive it?" in text_of(await send(operator, "/redrive", seen_at=path, letter=str(world.letter)))
    done = await send(operator, "/redrive", seen_at=path, **form)
    assert done.headers["location"] == f"/jobs/{EVENT}.2.{CONSUMER}"
    case = text_of(await operator.get(done.headers["location"]))
    assert "generation 2 after a redrive" in case
    assert "letter 1 was closed by operator" in case
    assert f'href="{done.headers["location"]}"' in (await operator.get(path)).text
    again = await send(operator, "/redrive", seen_at=path, **form)
    assert again.status_code == 409
    assert "was closed as redriven by operator" in text_of(again)


async def test_a_queue_is_paused_bounded_and_resumed(operator: httpx.AsyncClient, world: World) -> None:
    """In place, with reasons; what is bounded is read back; a bound that makes no sense is refused with its value."""
    path = f"/queues/{QUEUE}"
    paused = await send(operator, f"{path}/pause", seen_at=path, reason="the bank asks us to")
    assert paused.headers["location"] == path
    assert "Resume work" in text_of(await operator.get(path))
    assert (await world.engine.terms(QUEUE)).paused
    await send(operator, f"{path}/limit", seen_at=path, jobs="10", per="1m", concurrency="4", reason="slower")
    terms = await world.engine.terms(QUEUE)
    assert (terms.limit, terms.concurrency) == (Limit(10, 60.0), 4)
    assert 'value="1m"' in (await operator.get(path)).text
    await send(operator, f"{path}/limit", seen_at=path, jobs="", per="1m", concurrency="", reason="as before")
    assert ((await world.engine.terms(QUEUE)).limit, (await world.engine.terms(QUEUE)).concurrency) == (None, None)
    await send(operator, f"{path}/resume", seen_at=path, reason="they are back")
    assert [action[1:] for action in await world.actions()] == [
        ("pause", 1, "the bank asks us to"),
        ("limit", 1, "slower"),
        ("limit", 1, "as before"),
        ("resume", 1, "they are back"),
    ]
    for wrong in ({"jobs": "0"}, {"jobs": "ten"}, {"jobs": "5", "per": "soon"}, {"concurrency": "-1"}):
        refused = await send(operator, f"{path}/limit", seen_at=path, **{"per": "1s", "reason": "x", **wrong})
        assert refused.status_code == 400, wrong
    assert (await send(operator, "/queues/wrk/pause", seen_at=path, reason="x")).status_code == 404


@pytest.mark.parametrize("removal", ["drain", "clean-completed", "clean-failed", "obliterate"])
async def test_emptying_a_queue_is_an_administrators(
    operator: httpx.AsyncClient, admin: httpx.AsyncClient, world: World, removal: str
) -> None:
    """An operator sees no button and is refused; an administrator is asked with the number first."""
    path = f"/queues/{QUEUE}"
    assert "Obliterate" not in (await operator.get(path)).text
    assert (await send(operator, f"{path}/{removal}", seen_at=path, confirmed="yes", reason="x")).status_code == 403
    asked = text_of(await send(admin, f"{path}/{removal}", seen_at=path))
    assert re.search(r"\d jobs?", asked)
    done = await send(admin, f"{path}/{removal}", seen_at=path, confirmed="yes", reason="a fresh start")
    assert done.headers["location"] == path
    assert [action[:2] for action in await world.actions()] == [("admin", removal.partition("-")[0])]


async def test_a_case_file_shows_its_flow(viewer: httpx.AsyncClient, world: World) -> None:
    """What a job waits for, and what waits for it, with states, and the way to the whole tree; a job that is alone has none."""
    invoice = JobRef(QUEUE, JobId("invoice-1"))
    parent = NewJob(id=invoice.id, name="invoice", data="{}", timestamp_ms=0)
    child = NewJob(id=JobId("parcel-1"), name="pack", data="{}", timestamp_ms=0, parent=Parent(invoice))
    await world.engine.add_flow([FlowJob(queue=QUEUE, job=parent, waits=True), FlowJob(queue=QUEUE, job=child)])
    page = await viewer.get("/jobs/parcel-1?queue=work")
    assert "Its flow" in page.text
    assert 'href="/jobs/invoice-1?queue=work"' in page.text
    assert "waiting-children" in page.text
    assert "Its flow" not in (await viewer.get(f"/jobs/{DEAD_JOB}")).text


def text_of(page: httpx.Response) -> str:
    """What a reader sees: without tags, and spaces as one."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page.text)).split())
