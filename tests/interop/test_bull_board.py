"""Bull Board on a queue of ours: it lists our jobs, shows what became of them, and what people do there is done here."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from homing import Event, Homing, PermanentError
from homing.config.settings import Settings
from homing.ids import JobId, new_token
from homing.queue.flows import FlowJob
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.parent import JobRef, Parent
from homing.queue.port import Accepted, ClaimRequest
from homing.queue.redis import RedisEngine
from homing.queue.schedules import Schedule
from tests.interop.node import Node
from tests.system import quick, running
from tests.waiting import until

NOW_MS = 1_767_225_600_000
STATES = ("waiting", "delayed", "prioritized", "completed", "failed")


class Board:
    """Bull Board, asked as its page asks it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def listed(self, status: str) -> list[dict[str, Any]]:
        """The jobs of the page of a status."""
        answer = await self._http.get("/api/queues", params={"activeQueue": "mail", "status": status, "page": 1})
        (queue,) = answer.raise_for_status().json()["queues"]
        jobs: list[dict[str, Any]] = queue["jobs"]
        return jobs

    async def shown(self, path: str) -> Any:
        """What another page of it is made of."""
        return (await self._http.get(f"/api/{path}")).raise_for_status().json()

    async def do(self, path: str) -> None:
        """Press a button."""
        (await self._http.put(f"/api/queues/mail/{path}")).raise_for_status()


@pytest.fixture
async def board(node: Node) -> Any:
    """A board of one queue."""
    address = await node.bull_board(await node.queue("mail"))
    async with httpx.AsyncClient(base_url=address, trust_env=False) as http:
        yield Board(http)


async def add(engine: RedisEngine, *ids: str, **terms: object) -> None:
    """Add jobs."""
    assert await engine.add("mail", [new_job(job_id, **terms) for job_id in ids]) == [Accepted.ACCEPTED] * len(ids)


def new_job(job_id: str, **terms: object) -> NewJob:
    """A job with nothing special about it but `terms`."""
    return NewJob(id=JobId(job_id), name="greet", data='{"to":"π"}', timestamp_ms=NOW_MS, **terms)  # type: ignore[arg-type]  # tests name only the terms that matter


async def claim(engine: RedisEngine) -> ClaimedJob:
    """Claim a job that is there."""
    claimed = await engine.claim("mail", ClaimRequest(new_token(), 30.0, None, "w"))
    assert isinstance(claimed, ClaimedJob)
    return claimed


async def five_jobs(engine: RedisEngine) -> None:
    """One in each state, named after it; not plainly, since those names are the queue's own."""
    await add(engine, "is-completed", "is-failed")
    await engine.complete(await claim(engine), '{"sent":1}', mark="done", keep=KeepRule(), claim_next=None)
    dead = await claim(engine)
    await engine.fail(dead, "no luck", stack="Trace\nback", mark="dead:4", keep=KeepRule(), claim_next=None)
    await add(engine, "is-waiting")
    await add(engine, "is-delayed", delay_seconds=600)
    await add(engine, "is-prioritized", priority=3)


async def test_it_lists_our_jobs(board: Board, engine: RedisEngine) -> None:
    """Each under its state, with data, result, reason and stack."""
    await five_jobs(engine)
    listed = {status: await board.listed(status) for status in STATES}
    assert {status: [job["id"] for job in jobs] for status, jobs in listed.items()} == {
        status: [f"is-{status}"] for status in STATES
    }
    (completed,), (failed,), (delayed,) = listed["completed"], listed["failed"], listed["delayed"]
    assert (completed["data"], completed["returnValue"]) == ({"to": "π"}, {"sent": 1})
    assert (failed["failedReason"], failed["stacktrace"]) == ("no luck", ["Trace\nback"])
    assert delayed["delay"] > 0


async def test_it_shows_logs_flows_and_schedules(board: Board, engine: RedisEngine) -> None:
    """Lines of a job's log, the tree of a flow, and a schedule with its next tick."""
    bill = JobRef("mail", JobId("bill"))
    jobs = [FlowJob(queue="mail", job=new_job("bill"), waits=True)]
    jobs += [FlowJob(queue="mail", job=new_job(name, parent=Parent(bill))) for name in ("a", "b")]
    assert await engine.add_flow(jobs) == [Accepted.ACCEPTED] * 3
    await engine.note_lines("mail", JobId("a"), ["one", "two"])
    await engine.upsert_schedules("mail", [Schedule(id="hourly", job_name="greet", every_ms=3_600_000)])
    assert await board.shown("queues/mail/a/logs") == ["one", "two"]
    root = (await board.shown("queues/mail/bill/flow"))["flowRoot"]
    assert (root["id"], root["state"], root["dependencies"]["unprocessed"]) == ("bill", "waiting-children", 2)
    assert {child["id"]: child["state"] for child in root["children"]} == {"a": "waiting", "b": "waiting"}
    (held,) = await engine.schedules("mail")
    (shown,) = (await board.shown("job-schedulers"))["schedulers"]
    assert (shown["id"], shown["every"], shown["next"]) == ("hourly", 3_600_000, held.next_ms)
    assert shown["nextRunJobId"] == held.tick.job_id


async def test_ids_of_ours_are_ids_there(board: Board, engine: RedisEngine) -> None:
    """Those of deliveries have dots, those of children a slash: its addresses bear both."""
    delivery = "01890000-0000-7000-8000-000000000000.1.bills.bill"
    await add(engine, delivery, f"{delivery}/ship-p0", delay_seconds=600)
    assert {job["id"] for job in await board.listed("delayed")} == {delivery, f"{delivery}/ship-p0"}
    for job_id in (delivery, f"{delivery}/ship-p0"):
        await board.do(f"{quote(job_id, safe='')}/promote")
    assert (await engine.counts("mail")).waiting == 2


async def test_its_buttons_do_here_what_they_say(board: Board, engine: RedisEngine) -> None:
    """Retry, promote, remove, pause and resume."""
    await five_jobs(engine)
    await board.do("is-failed/retry")
    await board.do("is-delayed/promote")
    await board.do("is-prioritized/clean")
    await board.do("is-completed/clean")
    counts = await engine.counts("mail")
    assert (counts.waiting, counts.failed, counts.delayed, counts.prioritized, counts.completed) == (3, 0, 0, 0, 0)
    await board.do("pause")
    assert (await engine.observe("mail")).paused
    await board.do("resume")
    assert {(await claim(engine)).lease.job_id for _ in range(3)} == {"is-waiting", "is-delayed", "is-failed"}


class Asked(Event, topic="interop.board"):
    """What is refused once."""


async def test_a_dead_delivery_that_is_retried_there_is_adopted(node: Node, board: Board, settings: Settings) -> None:
    """The ledger hears of it: its letter is closed as retried, and the delivery is done after all."""
    app = Homing("shop")
    attempts: list[int] = []

    @app.queue("mail").handler("greet", on=Asked, at_least_once=True)
    async def greet(event: Asked) -> str:
        del event
        attempts.append(1)
        if len(attempts) == 1:
            raise PermanentError("not today")
        return "done"

    async with running(app, quick(settings)) as system:
        await system.record(Asked())

        async def is_listed() -> list[dict[str, Any]]:
            return await board.listed("failed")

        (dead,) = await until(is_listed, 30, "the board lists the dead job")
        await board.do(f"{dead['id']}/retry")
        await system.settled(30)

        async def is_done() -> bool:
            return await system.deliveries() == {"mail.greet": "done"}

        await until(is_done, 30, "the delivery is done")
        (letter,) = await system.letters()
    assert (letter["closed_as"], len(attempts)) == ("retried", 2)
