"""What BullMQ 5 leaves in a queue, written by itself: it is seen, and what can be brought back is."""

from homing.ids import new_token
from homing.queue.job import ClaimedJob
from homing.queue.port import ClaimRequest, Idle, QueueSettings
from homing.queue.redis import RedisEngine
from homing.queue.redis.left_behind import LeftBehind
from tests.interop.node import Node


async def test_what_bullmq_5_leaves_is_seen(node: Node, engine: RedisEngine) -> None:
    """Jobs that lie apart in its paused queue and its repeatable jobs, and none of its job schedulers, which BullMQ 6 reads."""
    old = await node.old_queue("mail")
    await old.call("upsertJobScheduler", "scheduler", {"pattern": "0 3 * * *"}, {"name": "nightly"})
    assert await engine.left_behind(["mail", "other"]) == ()
    await old.call("pause")
    await old.call("addBulk", [{"name": "send", "data": {}, "opts": {"jobId": job_id}} for job_id in ("a", "b")])
    await old.call("add", "hourly", {}, {"repeat": {"pattern": "0 * * * *", "tz": "Europe/Paris"}})
    await old.call("add", "often", {}, {"repeat": {"every": 3_600_000, "key": "often"}})
    (left,) = await engine.left_behind(["mail", "other"])
    assert (left.queue, left.paused_jobs, len(left.repeatables)) == ("mail", 2, 2)
    assert "often" in left.repeatables


async def test_resuming_brings_its_jobs_back(node: Node, engine: RedisEngine) -> None:
    """Nothing claims them where they lie; after our resume they are claimed in their order."""
    old = await node.old_queue("mail")
    await old.call("pause")
    await old.call("addBulk", [{"name": "send", "data": {}, "opts": {"jobId": job_id}} for job_id in ("a", "b")])
    assert await engine.claim("mail", ClaimRequest(new_token(), 30.0)) == Idle()
    await engine.push_settings("mail", QueueSettings(paused=False))
    assert await engine.left_behind(["mail"]) == ()
    claimed = [await engine.claim("mail", ClaimRequest(new_token(), 30.0)) for _ in range(2)]
    assert [job.lease.job_id for job in claimed if isinstance(job, ClaimedJob)] == ["a", "b"]


async def test_its_repeatable_jobs_are_gone_when_it_has_removed_them(node: Node, engine: RedisEngine) -> None:
    """The step that the error names: BullMQ 5 removes them by their key."""
    old = await node.old_queue("mail")
    await old.call("add", "often", {}, {"repeat": {"every": 3_600_000, "key": "often"}})
    assert await engine.left_behind(["mail"]) == (LeftBehind(queue="mail", repeatables=("often",)),)
    await old.call("removeRepeatableByKey", "often")
    assert await engine.left_behind(["mail"]) == ()
