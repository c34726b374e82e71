"""What BullMQ 5 left in a queue: a start refuses it by name, and the step it names mends it."""

import asyncio

import pytest
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.errors import UnsuitableServer
from homing.processes.opening import open_process
from tests.integration.commands import Commands

OLD_CRON = "nightly:::Europe/Paris:0 3 * * *"
OLD_EVERY = "ping::1767225600000::5000"
HASHED = "9f1f0d2c1e5b4c7f8a6b5d4c3e2f1a0b"


class Sent(Event, topic="left.behind", unrouted=True):
    """What the queues are for."""


def write_as_bullmq_5(settings: Settings) -> None:
    """A queue that was paused with two jobs in it, and repeatable jobs of three ages beside a schedule of BullMQ 6."""
    base = f"{settings.prefix}:mail:"
    with Redis.from_url(settings.redis_dsn) as client:
        client.hset(base + "meta", "paused", "1")
        for job_id in ("a", "b"):
            client.hset(base + job_id, mapping={"name": "send", "data": "{}", "opts": "{}", "timestamp": "1"})
            client.lpush(base + "paused", job_id)
        client.zadd(base + "repeat", {OLD_CRON: 1, OLD_EVERY: 2, HASHED: 3, "new": 4, "vanished": 5})
        client.hset(f"{base}repeat:{HASHED}", mapping={"name": "hourly", "pattern": "0 * * * *"})
        client.hset(f"{base}repeat:new", mapping={"name": "new", "pattern": "0 * * * *", "ic": "1"})


async def start(settings: Settings) -> None:
    """What every worker and relay does first."""
    app = Homing("shop")
    for name in ("mail", "print"):
        app.queue(name).consumer("send", on=Sent, foreign=True)
    async with open_process(app, settings, "worker"):
        pass


def test_a_start_refuses_it_until_it_is_mended(settings: Settings, command: Commands) -> None:
    """The error names the queue, what lies there and the steps; resuming brings the jobs back, and a schedule of BullMQ 6 is no fault."""
    write_as_bullmq_5(settings)
    with pytest.raises(UnsuitableServer) as refused:
        asyncio.run(start(settings))
    said = str(refused.value)
    assert "mail (2 jobs kept apart while it was paused, 3 repeatable jobs" in said
    assert repr(OLD_EVERY) in said
    assert "homing queues resume mail" in said
    assert "print" not in said
    base = f"{settings.prefix}:mail:"
    with Redis.from_url(settings.redis_dsn, decode_responses=True) as client:
        assert command("queues", "resume", "mail", "--why", "BullMQ 5 is gone").code == 0
        assert client.lrange(base + "wait", 0, -1) == ["b", "a"]
        assert not client.exists(base + "paused")
        client.zrem(base + "repeat", OLD_CRON, OLD_EVERY, HASHED)
    asyncio.run(start(settings))


def test_jobs_that_lie_apart_in_a_queue_that_goes_on_come_back_too(settings: Settings, command: Commands) -> None:
    """The list is emptied also where the queue is not paused any more."""
    write_as_bullmq_5(settings)
    base = f"{settings.prefix}:mail:"
    with Redis.from_url(settings.redis_dsn, decode_responses=True) as client:
        client.hdel(base + "meta", "paused")
        client.delete(base + "repeat")
        with pytest.raises(UnsuitableServer):
            asyncio.run(start(settings))
        assert command("queues", "resume", "mail", "--why", "BullMQ 5 is gone").code == 0
        assert client.lrange(base + "wait", 0, -1) == ["b", "a"]
