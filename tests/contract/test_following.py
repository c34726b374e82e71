"""Following a queue's events: none is left out without a word, whatever happens to the connection, the stream or the reader."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from homing.embedded import EmbeddedValkey
from homing.errors import ServerUnavailable
from homing.ids import JobId, new_token
from homing.queue.following import EventsMissed, EventStream, QueueEvent
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest, Idle
from homing.queue.redis import RedisEngine
from tests.contract.conftest import QUEUE, job
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

STREAM = f"bull:{QUEUE}:events"


@pytest.fixture
async def engine(disposable_server: EmbeddedValkey) -> AsyncIterator[RedisEngine]:
    """An engine on an empty server."""
    with Redis.from_url(disposable_server.url()) as client:
        client.flushall()
    found = RedisEngine(disposable_server.url())
    yield found
    await found.close()


@pytest.fixture
def client(disposable_server: EmbeddedValkey) -> Redis:
    """What a test does to the stream behind everybody's back."""
    return Redis.from_url(disposable_server.url())


async def drain(engine: RedisEngine, results: list[str]) -> None:
    """Add a job for each result, and complete them all."""
    await engine.add(QUEUE, [job(f"j{number}") for number in range(len(results))])
    found: ClaimedJob | Idle | None = await engine.claim(QUEUE, ClaimRequest(new_token(), 60))
    for result in results:
        assert isinstance(found, ClaimedJob)
        request = ClaimRequest(new_token(), 60)
        found = (await engine.complete(found, result, mark=None, keep=KeepRule(count=0), claim_next=request)).next


async def gather(stream: EventStream, seen: list[QueueEvent | EventsMissed], ends: int) -> None:
    """Note what a stream tells until so many jobs have completed."""
    async for told in stream:
        seen.append(told)
        ends -= isinstance(told, QueueEvent) and told.kind == "completed"
        if not ends:
            return


async def test_a_job_is_told_step_by_step(engine: RedisEngine) -> None:
    """Kinds, ids, times and values are those of what happened, from when the stream was opened."""
    await engine.add(QUEUE, [job("before")])
    async with engine.follow(QUEUE) as stream:
        await engine.remove(QUEUE, JobId("before"))
        await engine.add(QUEUE, [job("j0")])
        await engine.note_progress(QUEUE, JobId("j0"), '{"page":3}')
        claimed = await engine.claim(QUEUE, ClaimRequest(new_token(), 60))
        assert not isinstance(claimed, Idle)
        await engine.fail(claimed, "no paper", stack="", mark=None, keep=KeepRule(), claim_next=None)
        told = [await anext(stream) for _ in range(6)]
    events = [one for one in told if isinstance(one, QueueEvent)]
    assert [event.kind for event in events] == ["removed", "added", "waiting", "progress", "active", "failed"]
    assert [event.job_id for event in events] == ["before", *["j0"] * 5]
    assert (events[3].progress, events[5].reason) == ({"page": 3}, "no paper")
    assert all(event.at is not None for event in events)
    assert stream.position == events[-1].id


async def test_a_cut_connection_costs_no_event(engine: RedisEngine, disposable_server: EmbeddedValkey) -> None:
    """The reader is cut off four times while 2,000 jobs pass: every end is told once, with its own result, and nothing is called missed."""
    cuts, jobs = 4, 500
    async with TcpProxy(disposable_server.port) as proxy:
        reader = RedisEngine(proxy.url(disposable_server.url()))
        seen: list[QueueEvent | EventsMissed] = []
        async with reader.follow(QUEUE) as stream:
            reading = asyncio.create_task(gather(stream, seen, cuts * jobs))
            for cut in range(cuts):
                working = asyncio.create_task(drain(engine, [f"[{cut},{number}]" for number in range(jobs)]))
                await proxy.cut()
                await working
                await until(lambda cut=cut: proxy.accepted > cut + 1, 60)  # type: ignore[misc]  # the default binds it now
            await asyncio.wait_for(reading, 60)
        await reader.close()
    ends = Counter(str(told.result) for told in seen if isinstance(told, QueueEvent) and told.kind == "completed")
    assert ends == Counter(str([cut, number]) for cut in range(cuts) for number in range(jobs))
    assert not any(isinstance(told, EventsMissed) for told in seen)


@pytest.mark.parametrize("loss", ["trimmed", "flushed", "trimmed before the first"])
async def test_what_is_missing_is_said_in_its_place(engine: RedisEngine, client: Redis, loss: str) -> None:
    """A reader that the stream has left behind hears so once, and then what there is; flushed or trimmed, begun or not."""
    if loss != "trimmed before the first":
        await engine.add(QUEUE, [job("known")])
    async with engine.follow(QUEUE) as stream:
        await engine.add(QUEUE, [job("lost")])
        if loss == "flushed":
            client.flushall()
        await engine.add(QUEUE, [job("kept")])
        client.xtrim(STREAM, maxlen=2, approximate=False)
        missed, *rest = [await anext(stream) for _ in range(3)]
        await engine.remove(QUEUE, JobId("kept"))
        last = await anext(stream)
    assert isinstance(missed, EventsMissed)
    assert [(told.kind, told.job_id) for told in [*rest, last] if isinstance(told, QueueEvent)] == [
        ("added", "kept"),
        ("waiting", "kept"),
        ("removed", "kept"),
    ]


async def test_a_stream_goes_on_where_another_one_ended(engine: RedisEngine) -> None:
    """Its position is a place to begin at, in another process too; the beginning of everything is one as well."""
    await engine.add(QUEUE, [job("a")])
    async with engine.follow(QUEUE, after="0-0") as stream:
        first = await anext(stream)
        position = stream.position
    async with engine.follow(QUEUE, after=position) as stream:
        second = await anext(stream)
    kinds = [(told.kind, told.job_id) for told in (first, second) if isinstance(told, QueueEvent)]
    assert kinds == [("added", "a"), ("waiting", "a")]


async def test_waiting_may_be_given_up_and_begun_again(engine: RedisEngine) -> None:
    """A cancelled wait loses nothing, and a closed stream ends the one that waits."""
    async with engine.follow(QUEUE) as stream:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.05)
        await engine.add(QUEUE, [job("a")])
        told = await asyncio.wait_for(anext(stream), 60)
        assert isinstance(told, QueueEvent)
        assert told.kind == "added"
        seen: list[QueueEvent | EventsMissed] = []
        reading = asyncio.create_task(gather(stream, seen, 1))
        await until(lambda: len(seen) == 1, 30)
    await asyncio.wait_for(reading, 60)


async def test_a_server_that_is_away_is_said_at_the_beginning() -> None:
    """Nothing is followed from a place that nobody knows."""
    engine = RedisEngine("redis://localhost:1")
    with pytest.raises(ServerUnavailable):
        async with engine.follow(QUEUE):
            pass
    await engine.close()
