"""Questions and deeds of operators on a queue of very many jobs: each must stay below 200 ms.

Run with `python -m benchmarks.jobs [jobs]` from the root of the repository (1,000,000 unless said otherwise; a minute, 2 GB of memory). Half of
the jobs wait, the rest are delayed, completed and failed. The last figures are of deeds that take everything: they go on in small steps, and
what is measured is how long Redis answers nobody meanwhile. Nothing is asserted: numbers belong to a machine.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import asyncpg
from redis import Redis

from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.ids import DeliveryKey, JobId, new_event_id
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations.explaining import explain_id
from homing.operations.jobs import Choice, Deed, act_on_jobs, find_jobs, list_jobs, show_job
from homing.operations.queues import list_queues
from homing.queue.browse import JobState
from homing.queue.port import QueueSettings
from homing.queue.redis import RedisEngine
from homing.schema import migrate

QUEUE, PREFIX, TIMES = "bench", "bench", 15
ALICE = Person("alice@office")
Question = Callable[[], Awaitable[object]]


def fill(client: Redis, jobs: int) -> list[str]:
    """Jobs as BullMQ stores them, written directly; the ids of those that wait, the next to run first."""
    base, now_ms = f"{PREFIX}:{QUEUE}:", int(time.time() * 1000)
    waiting: list[str] = []
    for start in range(0, jobs, 5_000):
        pipe = client.pipeline(transaction=False)
        for number in range(start, min(start + 5_000, jobs)):
            job_id = DeliveryKey(new_event_id(), "bench.do", 1).job_id
            fields = {"name": "do", "data": '{"n":1}', "opts": '{"attempts":8}', "timestamp": now_ms, "priority": 0}
            if number % 2 == 0:
                waiting.append(job_id)
                pipe.lpush(base + "wait", job_id)
            elif number % 8 == 1:
                pipe.zadd(base + "delayed", {job_id: (now_ms + 3_600_000 + number) * 0x1000})
            else:
                state = "failed" if number % 8 == 3 else "completed"
                fields |= {"finishedOn": now_ms, "atm": 8, "failedReason": "Timeout: slow" if state == "failed" else ""}
                pipe.zadd(base + state, {job_id: now_ms + number})
            pipe.hset(base + job_id, mapping=fields)  # type: ignore[arg-type]  # numbers are written as text
        pipe.execute()
    return waiting


async def time_it(name: str, question: Question, times: int = TIMES) -> None:
    """Ask so many times; print the median and the slowest."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await question()
        took.append((time.perf_counter() - began) * 1000)
    print(f"{name:<58} {statistics.median(took):8.1f} ms median {max(took):8.1f} ms slowest")


async def last_page(ledger: Ledger, engine: RedisEngine, state: JobState, jobs: int) -> None:
    """A page from the middle of a state: its place is found by the id of the job before."""
    middle = jobs // (4 if state is JobState.WAITING else 16)
    newest_first = state.finished
    (job_id,) = await engine._ids(engine._keys(QUEUE), state, middle, 1, newest_first=newest_first)  # noqa: SLF001 - nobody pages that far to measure
    place = f"{QUEUE}/{state.value}/{middle}:{job_id}"
    choice = Choice(queue=QUEUE, state=state)
    await time_it(
        f"list {state.value}, 100 from the middle", lambda: list_jobs(ledger, engine, choice, after=place, most=100)
    )


async def answers_meanwhile(client: Redis, deed: Awaitable[object]) -> tuple[float, float]:
    """How long a deed takes, and how long Redis lets another client wait at the most meanwhile, in seconds."""
    slowest, running = 0.0, True

    def ping() -> None:
        nonlocal slowest
        while running:
            began = time.perf_counter()
            client.ping()
            slowest = max(slowest, time.perf_counter() - began)

    pinging = asyncio.create_task(asyncio.to_thread(ping))
    began = time.perf_counter()
    await deed
    took = time.perf_counter() - began
    running = False
    await pinging
    return took, slowest


async def measure(database_url: str, redis_url: str, jobs: int) -> None:
    """Fill, ask, act."""
    connection = await asyncpg.connect(database_url)
    with contextlib.closing(Redis.from_url(redis_url)) as client:
        await migrate(connection, engine="redis")
        await connection.execute("INSERT INTO homing.queues (queue) VALUES ($1)", QUEUE)
        waiting = fill(client, jobs)
        client.hset(f"{PREFIX}:{QUEUE}:meta", "paused", 1)
        print(f"{jobs:,} jobs, {client.info('memory')['used_memory_human']} in Redis")
        engine, ledger = (
            RedisEngine(redis_url, prefix=PREFIX),
            Ledger(database_url, engine="redis", application="bench"),
        )
        await ledger.open()
        await ask(ledger, engine, waiting, jobs)
        await empty(client, engine)
        await engine.close()
        await ledger.close()
    await connection.close()


async def ask(ledger: Ledger, engine: RedisEngine, waiting: list[str], jobs: int) -> None:
    """What an operator asks all day, and deeds on single jobs."""
    await time_it("queues list", lambda: list_queues(ledger, engine))
    for state in (JobState.WAITING, JobState.DELAYED, JobState.FAILED, JobState.COMPLETED):
        choice = Choice(queue=QUEUE, state=state)
        await time_it(f"list {state.value}, first 100", partial(list_jobs, ledger, engine, choice, most=100))
        await last_page(ledger, engine, state, jobs)
    rare = Choice(queue=QUEUE, name="rare")
    await time_it(
        "list by a name that nobody has (2,000 jobs looked at)", lambda: list_jobs(ledger, engine, rare, most=100), 3
    )
    first, middle, last = (JobId(waiting[at]) for at in (0, len(waiting) // 2, -1))
    for name, job_id in (("next to run", first), ("in the middle", middle), ("last", last)):
        await time_it(f"show a waiting job, {name}", partial(show_job, ledger, engine, job_id))
        await time_it(f"explain a waiting job, {name}", partial(explain_id, ledger, engine, job_id))
    page = [JobId(job_id) for job_id in waiting[:500]]
    await time_it("find 500 jobs by id", lambda: find_jobs(ledger, engine, page))
    failed = await list_jobs(ledger, engine, Choice(queue=QUEUE, state=JobState.FAILED), most=500)
    ids = [placed.job.id for placed in failed.jobs]
    await time_it("retry 500 failed jobs", lambda: act_on_jobs(ledger, engine, Deed.RETRY, ids, person=ALICE), 1)
    delayed = await list_jobs(ledger, engine, Choice(queue=QUEUE, state=JobState.DELAYED), most=500)
    ids = [placed.job.id for placed in delayed.jobs]
    await time_it("promote 500 delayed jobs", lambda: act_on_jobs(ledger, engine, Deed.PROMOTE, ids, person=ALICE), 1)
    await time_it(
        "remove one waiting job, in the middle",
        lambda: act_on_jobs(ledger, engine, Deed.REMOVE, [middle], person=ALICE),
        1,
    )


async def empty(client: Redis, engine: RedisEngine) -> None:
    """What takes a whole queue."""
    deeds: list[tuple[str, Awaitable[object]]] = [
        ("clean all completed jobs", engine.clean(QUEUE, JobState.COMPLETED, -3600, 10**9)),
        ("drain all that wait", engine.drain(QUEUE, delayed=False)),
        ("obliterate the rest", obliterate(engine)),
    ]
    for name, deed in deeds:
        took, slowest = await answers_meanwhile(client, deed)
        print(f"{name:<58} {took:8.1f} s; Redis was deaf for {slowest * 1000:.0f} ms at the most")


async def obliterate(engine: RedisEngine) -> None:
    """Paused first, as the command does."""
    await engine.push_settings(QUEUE, QueueSettings(paused=True))
    print(f"obliterate: {await engine.obliterate(QUEUE, force=True)}")


def main() -> None:
    """Start servers of its own, measure, stop them."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        postgres, valkey = EmbeddedPostgres(Path(folder, "postgres")), EmbeddedValkey(Path(folder, "valkey"))
        with postgres, valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            asyncio.run(measure(postgres.url(), valkey.url(), jobs))


if __name__ == "__main__":
    main()
