"""Jobs outside the outbox: what enqueueing costs beside the official port, how late delayed jobs start, and whether an event stream is whole.

    python -m benchmarks.direct [--rounds 15] [--jobs 400] [--delayed 200] [--events 100000]

Enqueueing is measured by turns of `--jobs`: one call after another, and a hundred at once. The stream of `--events` jobs is
read through a proxy that cuts the reader off again and again. Nothing is asserted but that no end is missing; rates belong to a machine.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import asyncpg
from redis import Redis

from benchmarks.direct_adding import Asked, compare
from benchmarks.latency import percentiles
from homing import Homing
from homing.client import EventsMissed, QueueEvent
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.ids import JobId, new_token
from homing.queue.following import EventStream
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.port import ClaimRequest, Finished, Idle
from homing.queue.redis import RedisEngine
from homing.schema import migrate
from tests.system import running
from tests.tcp_proxy import TcpProxy

LONGEST_DELAY_MS = 3_000
CUTS = 10
SLOTS = 50
NOTHING_KEPT = KeepRule(count=0)


# ── Delays ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def measure_delays(settings: Settings, jobs: int) -> None:
    """How long after their time delayed jobs start in an idle worker."""
    app, late = Homing("delays"), list[float]()
    queue, due = app.queue("bench", concurrency=20), dict[int, float]()
    done = asyncio.Event()

    @queue.handler("job", on=Asked, at_least_once=True)
    async def start(event: Asked) -> None:
        late.append((time.time() - due[event.user_id]) * 1000)
        if len(late) == jobs:
            done.set()

    async with running(app, settings, relay=False):
        for number in range(jobs):
            delay_ms = 200 + number * LONGEST_DELAY_MS // jobs
            due[number] = time.time() + delay_ms / 1000
            await queue.enqueue("job", Asked(user_id=number), delay=milliseconds(delay_ms))
        await done.wait()
        await app.close()
    print(f"{jobs} delayed jobs: late by {percentiles(late)}; earliest {min(late):.1f} ms", flush=True)


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def drain(engine: RedisEngine, jobs: int) -> None:
    """Add so many jobs and complete them all, each with its number as its result."""

    async def work() -> None:
        found: ClaimedJob | Idle | None = await engine.claim("bench", ClaimRequest(new_token(), 60))
        while isinstance(found, ClaimedJob):
            request = ClaimRequest(new_token(), 60)
            answer: Finished = await engine.complete(
                found, found.data, mark=None, keep=NOTHING_KEPT, claim_next=request
            )
            found = answer.next

    for start in range(0, jobs, 1000):
        numbers = range(start, min(start + 1000, jobs))
        await engine.add(
            "bench", [NewJob(id=JobId(f"j{one}"), name="job", data=str(one), timestamp_ms=1) for one in numbers]
        )
        await asyncio.gather(*(work() for _ in range(SLOTS)))


async def read_ends(stream: EventStream, jobs: int, proxy: TcpProxy) -> tuple[Counter[int], int, int]:
    """The ends that were told, by number; the events in all; and how often some were missing. The reader is cut off on the way."""
    ends: Counter[int] = Counter()
    events = missed = 0
    cut_at = [jobs * part // (CUTS + 1) for part in range(CUTS, 0, -1)]
    async for told in stream:
        missed += isinstance(told, EventsMissed)
        events += isinstance(told, QueueEvent)
        if isinstance(told, QueueEvent) and told.kind == "completed":
            ends[int(told.result)] += 1
            if cut_at and ends.total() >= cut_at[-1]:
                cut_at.pop()
                await proxy.cut()
            if ends.total() == jobs:
                break
    return ends, events, missed


async def measure_events(valkey: EmbeddedValkey, jobs: int) -> None:
    """Every end exactly once, with its own result, though the reader loses its connection ten times."""
    with Redis.from_url(valkey.url()) as client:
        client.flushall()
    engine = RedisEngine(valkey.url())
    async with TcpProxy(valkey.port) as proxy:
        reader = RedisEngine(proxy.url(valkey.url()))
        async with reader.follow("bench") as stream:
            began = time.perf_counter()
            working = asyncio.create_task(drain(engine, jobs))
            ends, events, missed = await read_ends(stream, jobs, proxy)
            await working
        seconds, connections = time.perf_counter() - began, proxy.accepted
        await reader.close()
    await engine.close()
    whole = ends == Counter(range(jobs)) and not missed
    print(
        f"events: {events:,} of {jobs:,} jobs in {seconds:.1f} s over {connections} connections, {len(ends):,} ends, "
        f"{ends.total() - len(ends)} told twice, {missed} gaps: {'whole' if whole else 'NOT WHOLE'}"
    )
    if not whole:
        raise SystemExit(1)


async def prepare(database_url: str) -> None:
    """The ledger that the worker of the delays needs."""
    connection = await asyncpg.connect(database_url)
    await migrate(connection, engine="redis")
    await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--delayed", type=int, default=200)
    parser.add_argument("--events", type=int, default=100_000, help="jobs whose events are followed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with EmbeddedPostgres(home / "postgres") as postgres, EmbeddedValkey(home / "valkey") as valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            print(f"homing {version('homing')}, official port: bullmq {version('bullmq')}", flush=True)
            asyncio.run(compare(valkey.url(), options.rounds, options.jobs))
            asyncio.run(prepare(postgres.url()))
            asyncio.run(measure_delays(Settings(database_url=postgres.url(), redis_url=valkey.url()), options.delayed))
            asyncio.run(measure_events(valkey, options.events))


if __name__ == "__main__":
    main()
