"""Flows as they lie in Redis: in BullMQ's own fields, and mended where something was lost."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.ids import JobId
from homing.queue.flows import FlowJob
from homing.queue.parent import JobRef, OnFailure, Parent
from homing.queue.port import Accepted
from homing.queue.redis import RedisEngine
from tests.contract.conftest import KEEP, ask, job

BILL = JobRef("bills", JobId("bill"))


@pytest.fixture
def raw(valkey_server: EmbeddedValkey, redis_prefix: str) -> Any:
    """The server, to be looked at and damaged."""
    return Redis.from_url(valkey_server.url(), decode_responses=True)


@pytest.fixture
async def engine(valkey_server: EmbeddedValkey, redis_prefix: str) -> AsyncIterator[RedisEngine]:
    """An engine under a prefix of this test's own."""
    engine = RedisEngine(valkey_server.url(), prefix=redis_prefix)
    await engine.open()
    yield engine
    await engine.close()


async def flow(engine: RedisEngine, *children: str, on_failure: OnFailure = "fail") -> None:
    """A bill that waits for children in another queue."""
    jobs = [FlowJob(queue="bills", job=job("bill", priority=3), waits=True)]
    jobs += [FlowJob(queue="parcels", job=job(name, parent=Parent(BILL, on_failure))) for name in children]
    assert await engine.add_flow(jobs) == [Accepted.ACCEPTED] * len(jobs)


@pytest.mark.parametrize(
    ("on_failure", "word"), [("fail", "fpof"), ("continue", "cpof"), ("ignore", "idof"), ("remove", "rdof")]
)
async def test_a_flow_is_written_as_bullmq_writes_it(
    engine: RedisEngine, raw: Any, redis_prefix: str, on_failure: OnFailure, word: str
) -> None:
    """Parent and policy are in the child's hash and options, the child in the parent's set of dependencies."""
    await flow(engine, "p1", on_failure=on_failure)
    hash_ = raw.hgetall(f"{redis_prefix}:parcels:p1")
    bills = f"{redis_prefix}:bills"
    assert hash_["parentKey"] == f"{bills}:bill"
    assert json.loads(hash_["parent"]) == {"id": "bill", "queueKey": bills, word: True}
    options = json.loads(hash_["opts"])
    assert (options["parent"], options[word]) == ({"id": "bill", "queue": bills}, True)
    assert raw.smembers(f"{bills}:bill:dependencies") == {f"{redis_prefix}:parcels:p1"}
    assert raw.zrange(f"{bills}:waiting-children", 0, -1) == ["bill"]


async def test_a_parent_goes_on_when_its_children_were_lost(engine: RedisEngine, raw: Any, redis_prefix: str) -> None:
    """A hash that vanished (eviction, another node) and one that ended unnoticed stop counting at the next look, and a ghost is none."""
    await flow(engine, "gone", "ghost", "ended", on_failure="ignore")
    raw.delete(f"{redis_prefix}:parcels:gone")
    raw.hdel(f"{redis_prefix}:parcels:ghost", "name")
    assert (await engine.review_parents("bills")).released == ()
    claimed = await engine.claim("parcels", ask())
    while claimed.lease.job_id != "ended":  # type: ignore[union-attr]  # there is a job
        claimed = await engine.claim("parcels", ask())
    await engine.fail(claimed, "broken", stack="", mark=None, keep=KEEP, claim_next=None)  # type: ignore[arg-type]  # as above
    raw.sadd(f"{redis_prefix}:bills:bill:dependencies", f"{redis_prefix}:parcels:ended")  # somebody added it again
    raw.zrem(f"{redis_prefix}:bills:prioritized", "bill")
    raw.zadd(f"{redis_prefix}:bills:waiting-children", {"bill": 1})
    assert (await engine.review_parents("bills")).released == (BILL.id,)
    assert raw.zcard(f"{redis_prefix}:bills:prioritized") == 1
    found = await engine.family("bills", BILL.id)
    assert found.forgiven == {JobRef("parcels", JobId("ended")): "broken"}
    assert found.pending == ()


async def test_nodes_own_rule_is_left_alone(engine: RedisEngine, raw: Any, redis_prefix: str) -> None:
    """A flow of another producer that said nothing about failures waits for a person, as BullMQ has it; foreign prefixes are not touched."""
    await flow(engine, "p1")
    raw.hset(f"{redis_prefix}:parcels:p1", "parent", json.dumps({"id": "bill", "queueKey": f"{redis_prefix}:bills"}))
    claimed = await engine.claim("parcels", ask())
    await engine.fail(claimed, "broken", stack="", mark=None, keep=KEEP, claim_next=None)  # type: ignore[arg-type]  # there is a job
    raw.sadd(f"{redis_prefix}:bills:bill:dependencies", "elsewhere:queue:x")
    assert (await engine.review_parents("bills")).released == ()
    assert set((await engine.family("bills", BILL.id)).pending) == {
        JobRef("parcels", JobId("p1")),
        JobRef("", JobId("elsewhere:queue:x")),
    }


async def test_scripts_that_the_server_forgot_are_sent_again(engine: RedisEngine, raw: Any) -> None:
    """A flow is whole also on a server that was told to forget all scripts."""
    raw.script_flush()
    await flow(engine, "p1", "p2")
    assert (await engine.family("bills", BILL.id)).pending_count == 2


async def test_a_ghost_is_no_child(engine: RedisEngine, raw: Any, redis_prefix: str) -> None:
    """A hash that a claim of a lost job left behind makes way for the job that is to be waited for."""
    raw.hset(f"{redis_prefix}:parcels:p1", mapping={"processedOn": 1, "ats": 1})
    await flow(engine, "p1")
    assert raw.lrange(f"{redis_prefix}:parcels:wait", 0, -1) == ["p1"]
    assert raw.hget(f"{redis_prefix}:parcels:p1", "name") == "send"
