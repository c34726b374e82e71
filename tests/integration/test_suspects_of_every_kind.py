"""Plain functions and batches under suspicion: each suspect runs alone in a child, is done there once, or is convicted by the child's death."""

import json
import os

import pytest
from redis.asyncio import Redis

from homing import Event
from homing.config.settings import Settings
from homing.ledger.gate import SUSPECT_STALLS
from tests.integration.suspects_kinds_app import TABLE, Asked, AskedLeast, Counted, app
from tests.system import System, quick, running
from tests.waiting import until


async def suspects(settings: Settings, *events: Event, innocent: int = 0) -> None:
    """Record events; the waiting jobs of all but the last `innocent` look as if their claims had ended without an end."""
    async with running(app, settings, worker=False) as system:
        await system.sql.execute(TABLE)
        await system.record(*events)
        async with Redis.from_url(settings.redis_dsn) as client:
            for event in events[: len(events) - innocent]:

                async def jobs(event: Event = event) -> list[bytes]:
                    keys = [key async for key in client.scan_iter(match=f"{settings.prefix}:*:*{event.event_id}*")]
                    return [key for key in keys if await client.type(key) == b"hash"]

                (key,) = await until(jobs, what="the job is dispatched")
                await client.hset(key, "stc", str(SUSPECT_STALLS))

        async def all_wait() -> bool:
            return (await system.engine.counts("kinds")).waiting == len(events)

        await until(all_wait, what="all jobs wait")


async def results(system: System) -> list[object]:
    rows = await system.sql.fetch("SELECT result::text AS result FROM homing.deliveries ORDER BY event_id")
    return [json.loads(row["result"]) for row in rows]


@pytest.mark.parametrize("event", [Asked(), AskedLeast()], ids=["with transaction", "at least once"])
async def test_a_plain_function_runs_alone_and_counts_once(settings: Settings, event: Event) -> None:
    """In a thread of the child, with what the child's own lifespan provides."""
    settings = quick(settings)
    await suspects(settings, event)
    async with running(app, settings) as system:
        await system.settled(60)
        (pid,) = await results(system)
        assert pid != os.getpid()
        effects = [row["pid"] for row in await system.sql.fetch("SELECT pid FROM effects")]
        assert effects == ([pid] if isinstance(event, Asked) else [])
        assert await system.letters() == []


async def test_suspects_leave_the_batch_to_the_others(settings: Settings) -> None:
    """Two suspects of a batch handler run in a child each; those beside them are handled in the worker, once."""
    settings = quick(settings)
    await suspects(settings, *(Counted() for _ in range(6)), innocent=4)
    async with running(app, settings) as system:
        await system.settled(60)
        found = await results(system)
        alone = [each for each in found if isinstance(each, list) and each[1] != os.getpid()]
        assert [size for size, _ in alone] == [1, 1]
        assert len({pid for _, pid in alone}) == 2
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == 6
        assert await system.sql.fetchval("SELECT count(*) FROM effects WHERE pid = $1", os.getpid()) == 4
        assert await system.letters() == []


@pytest.mark.parametrize("event", [Asked(mood="die"), AskedLeast(mood="die"), Counted(mood="die")])
async def test_whoever_kills_its_child_is_convicted(settings: Settings, event: Event) -> None:
    """And nothing of its transaction stays; the worker hardly notices."""
    settings = quick(settings)
    await suspects(settings, event)
    async with running(app, settings) as system:
        await system.settled(60)
        (letter,) = await system.letters()
        assert (letter["kind"], json.loads(letter["error"])["class"]) == ("poison", "ChildDied")
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == 0
        assert system.worker is not None
        assert system.worker.health().ready
