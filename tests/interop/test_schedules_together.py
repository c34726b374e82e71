"""Schedules over both systems: whoever made one, whoever gets a tick makes the next one, and each tick is one job."""

from itertools import pairwise
from typing import Any

from homing import Event, Homing, Job, Tick
from homing.config.settings import Settings
from homing.ids import JobId, new_token
from homing.queue.job import ClaimedJob, NewJob
from homing.queue.port import Accepted, ClaimRequest
from homing.queue.redis import RedisEngine
from homing.queue.schedules import Advanced, Schedule
from tests.interop.node import Node
from tests.interop.theirs import CLAIM
from tests.system import quick, running
from tests.waiting import until

EVERY_MS = 20
HOUR_MS = 3_600_000


class Asked(Event, topic="interop.ticked", unrouted=True):
    """What Node's schedule asks for, in its own words."""

    report: str


async def test_our_worker_keeps_a_schedule_of_node_going(node: Node, settings: Settings) -> None:
    """Node upserts it, our handler runs its ticks, and makes each next one, up to the limit; the template's data is the payload."""
    app = Homing("shop")
    seen: list[tuple[str, str]] = []

    @app.queue("reports").handler("render", on=Asked, at_least_once=True)
    async def render(event: Asked, job: Job) -> None:
        seen.append((job.id, event.report))

    async with running(app, quick(settings), relay=False):
        queue = await node.queue("reports")
        template = {"name": "render", "data": {"report": "sales"}}
        await queue.call("upsertJobScheduler", "often", {"every": EVERY_MS, "limit": 4}, template)
        await until(lambda: len(seen) >= 4, 30, "four ticks")

        async def is_quiet() -> bool:
            counts: dict[str, int] = await queue.call("getJobCounts", "delayed", "waiting", "active", "completed")
            return counts == {"delayed": 0, "waiting": 0, "active": 0, "completed": 4}

        await until(is_quiet, 30, "no tick is left")
    times = [int(job_id.rpartition(":")[2]) for job_id, _ in seen]
    assert times == sorted(set(times))
    assert {report for _, report in seen} == {"sales"}
    assert all(job_id.startswith("repeat:often:") for job_id, _ in seen)


async def test_a_node_worker_keeps_a_schedule_of_ours_going(node: Node, engine: RedisEngine) -> None:
    """We upsert it, Node's worker runs its ticks and makes each next one, up to the limit."""
    schedule = Schedule(id="often", job_name="render", data='{"report":"sales"}', every_ms=EVERY_MS, limit=4)
    await engine.upsert_schedules("reports", [schedule])
    worker = await node.worker("reports", "async (job) => job.data.report")
    await until(lambda: len(worker.told("completed")) >= 4, 30, "four ticks")

    async def is_quiet() -> bool:
        counts = await engine.counts("reports")
        return (counts.delayed, counts.waiting, counts.active, counts.completed) == (0, 0, 0, 4)

    await until(is_quiet, 30, "no tick is left")
    ids = [job["$job"]["id"] for job, *_ in worker.told("completed")]
    assert len(set(ids)) == 4
    assert {result for _, result, *_ in worker.told("completed")} == {"sales"}


async def test_ticks_pass_from_one_to_the_other(node: Node, engine: RedisEngine) -> None:
    """Node, we, Node, we: each claims one tick and makes the next, an interval later, and there is never a second one."""
    await engine.upsert_schedules("reports", [Schedule(id="hourly", job_name="render", every_ms=HOUR_MS)])
    worker = await node.worker("reports", None)
    due: list[int] = []
    for turn in range(4):
        (held,) = await engine.schedules("reports")
        await engine.promote("reports", held.tick.job_id)
        if turn % 2 == 0:
            claimed = await node.run(CLAIM, worker, f"token-{turn}")
            assert claimed.fields["id"] == held.tick.job_id
        else:
            ours = await engine.claim("reports", ClaimRequest(new_token(), 30.0))
            assert isinstance(ours, ClaimedJob)
            assert ours.lease.job_id == held.tick.job_id
            await engine.advance("reports", held.tick)
        due.append(held.next_ms)
    counts = await engine.counts("reports")
    assert [later - earlier for earlier, later in pairwise(due)] == [HOUR_MS] * 3
    assert (counts.active, counts.delayed, counts.waiting) == (4, 1, 0)


async def test_draining_leaves_the_tick_that_waits(node: Node, engine: RedisEngine) -> None:
    """Our drain takes the jobs and leaves the tick, which Node then claims: the schedule goes on."""
    plain = NewJob(id=JobId("a"), name="render", data="{}", timestamp_ms=1_767_225_600_000)
    assert await engine.add("reports", [plain]) == [Accepted.ACCEPTED]
    await engine.upsert_schedules("reports", [Schedule(id="hourly", job_name="render", every_ms=HOUR_MS)])
    (held,) = await engine.schedules("reports")
    assert await engine.drain("reports", delayed=True) == 1
    worker = await node.worker("reports", None)
    claimed = await node.run(CLAIM, worker, "token")
    assert claimed.fields["id"] == held.tick.job_id
    counts = await engine.counts("reports")
    assert (counts.waiting, counts.delayed, counts.active) == (0, 1, 1)


async def test_a_schedule_survives_nodes_drain(node: Node, engine: RedisEngine) -> None:
    """BullMQ's drain takes a waiting tick out of its line and leaves its job there for ever; the look sees it, and the chain goes on."""
    queue = await node.queue("reports")
    await queue.call("add", "render", {}, {"jobId": "a"})
    await engine.upsert_schedules("reports", [Schedule(id="hourly", job_name="render", every_ms=HOUR_MS)])
    (held,) = await engine.schedules("reports")
    assert await engine.dropped("reports", [held.tick]) == []
    await queue.call("drain")
    assert await engine.dropped("reports", [held.tick]) == [held.tick]
    assert await engine.advance("reports", held.tick) == Advanced(held.next_ms + HOUR_MS)
    (following,) = await engine.schedules("reports")
    assert await engine.dropped("reports", [following.tick]) == []
    await engine.promote("reports", following.tick.job_id)
    assert await engine.dropped("reports", [following.tick]) == []
    worker = await node.worker("reports", None)
    claimed = [await node.run(CLAIM, worker, "token") for _ in range(2)]
    assert following.tick.job_id in [one.fields["id"] for one in claimed if one is not None]


async def test_both_read_the_same_schedules(node: Node, engine: RedisEngine) -> None:
    """A pattern with its zone, an interval, start, end and limit: each lists the other's with the same next tick."""
    nightly: dict[str, Any] = {"pattern": "30 2 * * *", "tz": "Europe/Paris", "limit": 9}
    queue = await node.queue("reports")
    await queue.call("upsertJobScheduler", "theirs", nightly, {"name": "render", "data": {"a": 1}})
    await engine.upsert_schedules(
        "reports",
        [Schedule(id="ours", job_name="render", data='{"a":1}', every_ms=HOUR_MS, end_ms=4_000_000_000_000)],
    )
    here = {held.schedule.id: held for held in await engine.schedules("reports")}
    there = {one["key"]: one for one in await queue.call("getJobSchedulers")}
    assert {name: held.next_ms for name, held in here.items()} == {name: one["next"] for name, one in there.items()}
    theirs = here["theirs"].schedule
    assert (theirs.cron, theirs.zone, theirs.limit, theirs.data) == ("30 2 * * *", "Europe/Paris", 9, '{"a":1}')
    ours = there["ours"]
    assert (ours["every"], ours["endDate"], ours["template"]) == (HOUR_MS, 4_000_000_000_000, {"data": {"a": 1}})
    assert await engine.remove_schedule("reports", "theirs")
    assert await queue.call("removeJobScheduler", "ours")
    assert (await engine.schedules("reports"), await queue.call("getJobSchedulers")) == ([], [])


async def test_a_declared_schedule_is_run_here_and_seen_there(node: Node, settings: Settings) -> None:
    """What the code declares is a job scheduler for Node's tools, with its next tick."""
    app = Homing("shop")

    @app.queue("reports").schedule("nightly", cron="0 3 * * *", zone="Europe/Paris", at_least_once=True)
    async def clean(tick: Tick) -> None:
        del tick

    async with running(app, quick(settings), relay=False):
        queue = await node.queue("reports")

        async def seen_by_node() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = await queue.call("getJobSchedulers")
            return found

        (one,) = await until(seen_by_node, 30, "Node sees it")
        worker = await node.worker("reports", None)
        assert await node.run(CLAIM, worker, "token") is None
    assert (one["key"], one["pattern"], one["tz"]) == ("nightly", "0 3 * * *", "Europe/Paris")
