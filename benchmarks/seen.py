"""What the command line asks of a ledger that holds very much: each question must stay below 200 ms.

Run with `python -m benchmarks.seen [deliveries]` from the root of the repository (5,000,000 unless said otherwise; some minutes, 4 GB of disk).
Of the events, half are settled by two consumers each; 100,000 deliveries are unsettled, 100,000 events scheduled, 10,000 unroutable, over fifty topics;
20,000 letters, 50,000 actions. Each question is asked seven times. Nothing is asserted: numbers belong to a machine.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg

from homing.embedded import EmbeddedPostgres, stop_with_parent
from homing.ledger.ledger import Ledger
from homing.operations.actions import list_actions
from homing.operations.consumers import ROUTES, list_consumers
from homing.operations.events import EventState, list_events, show_event
from homing.operations.following import Follower
from homing.operations.overview import read_consumers, read_processes, read_topics
from homing.operations.pace import read_open_work, read_pace
from homing.operations.status import COUNTED, FAILING, LATELY_SECONDS, TOTALS
from homing.schema import migrate

TIMES = 7
Question = Callable[[], Awaitable[object]]

ID = "(regexp_replace(lpad(to_hex({ms}), 12, '0'), '(.{{8}})(.{{4}})', '\\1-\\2') || '-7' || substr(gen_random_uuid()::text, 16))::uuid"
NOW_MS = "(extract(epoch FROM now()) * 1000)::bigint"

FILL = """
INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode)
SELECT 'topic.' || t, 'queue.job' || c || 'of' || t, 'queue', 'job' || c || 'of' || t, 'tx' FROM generate_series(0, 49) t, generate_series(1, 2) c;
INSERT INTO homing.outbox_events (id, topic, payload, created_at, available_at, published_at)
SELECT {old}, 'topic.' || i % 50, '{{"number": 1, "text": "some words that a payload has"}}', now(), now(), now() FROM generate_series(1, {events}) i;
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)
SELECT o.id, s.consumer, s.queue, s.job_name, 'done', now() FROM homing.outbox_events o JOIN homing.subscriptions s USING (topic);
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, check_at)
SELECT {old}, 'queue.job1of' || i % 50, 'queue', 'job', now() + interval '1 h' FROM generate_series(1, 100000) i;
INSERT INTO homing.outbox_events (id, topic, payload, available_at)
SELECT {old}, 'topic.' || i % 50, '{{}}', now() + interval '1 d' FROM generate_series(1, 100000) i;
INSERT INTO homing.outbox_events (id, topic, payload) SELECT {old}, 'nobody.' || i % 50, '{{}}' FROM generate_series(1, 10000) i;
INSERT INTO homing.outbox_events (id, topic, payload, parked_error)
SELECT {old}, 'bad.' || i % 50, '{{}}', 'no object' FROM generate_series(1, 1000) i;
INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT gen_random_uuid(), 'queue.job1of' || i % 50, 1, 'queue', 'job', 'x', 'failed', '{{"a": 1}}', '{{"class": "Boom", "text": "no"}}', 'f' || i % 20, 3
FROM generate_series(1, 20000) i;
INSERT INTO homing.operator_actions (actor, action, subject, affected) SELECT 'p' || i % 9, 'redrive', '{{}}', 1 FROM generate_series(1, 50000) i;
"""
VACUUM = "VACUUM ANALYZE homing.outbox_events, homing.deliveries, homing.dead_letters, homing.operator_actions"


async def time_it(name: str, question: Question) -> None:
    """Ask so many times; print the median and the slowest."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await question()
        took.append((time.perf_counter() - began) * 1000)
    print(f"{name:<52} {statistics.median(took):8.1f} ms median {max(took):8.1f} ms slowest", flush=True)


async def fill(url: str, deliveries: int) -> None:
    """A ledger of that size, vacuumed."""
    connection = await asyncpg.connect(url)
    await migrate(connection, engine="redis")
    began = time.perf_counter()
    old = ID.format(ms=f"{NOW_MS} - 86400000 + i")
    await connection.execute(FILL.format(old=old, events=deliveries // 2), timeout=3600)
    await connection.execute(VACUUM, timeout=3600)
    size = await connection.fetchval("SELECT pg_size_pretty(pg_database_size(current_database()))")
    print(f"{deliveries:,} settled deliveries, {size}, filled in {time.perf_counter() - began:.0f} s", flush=True)
    await connection.close()


async def ask(ledger: Ledger) -> None:
    """Everything that status, top, tail and the lists ask."""
    await time_it("topics", lambda: read_topics(ledger))
    await time_it("consumers", lambda: read_consumers(ledger))
    await time_it("processes", lambda: read_processes(ledger))
    await time_it("routes", lambda: ledger.fetch(ROUTES))
    await time_it("failing", lambda: ledger.fetch(FAILING, since_seconds=LATELY_SECONDS, walk=10_000, page=20))
    await time_it("totals", lambda: ledger.fetch(TOTALS, most=COUNTED))
    await time_it("consumers list", lambda: list_consumers(ledger))
    await time_it("events list, newest 50", lambda: list_events(ledger))
    await time_it("events list, of a common topic", lambda: list_events(ledger, topic="topic.7"))
    await time_it("events list, of a topic nobody has (20,000 looked at)", lambda: list_events(ledger, topic="x"))
    for state in EventState:
        await time_it(f"events list, {state.value}", lambda state=state: list_events(ledger, state=state))  # type: ignore[misc]  # bound at once
    await time_it("events list, 500 unpublished", lambda: list_events(ledger, state=EventState.UNPUBLISHED, most=500))
    page = await list_events(ledger, state=EventState.PUBLISHED)
    await time_it("events show", lambda: show_event(ledger, page.events[-1].event_id))
    await time_it("actions list", lambda: list_actions(ledger))
    await time_it("actions list, of nobody (20,000 looked at)", lambda: list_actions(ledger, actor="x"))
    look = await read_open_work(ledger)
    await time_it("top, first look", lambda: read_open_work(ledger))
    await time_it("top, second look", lambda: read_pace(ledger, look))
    follower = Follower(ledger)
    await follower.look()
    await time_it("tail, one look", follower.look)


LATELY = """
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, outcome, settled_at)
SELECT {lately}, 'queue.job', 'queue', 'job', 'done', now() FROM generate_series(1, 60000) i
"""


async def record_lately(url: str) -> None:
    """As many deliveries of events of the last minute as a look at them takes."""
    connection = await asyncpg.connect(url)
    await connection.execute(LATELY.format(lately=ID.format(ms=f"{NOW_MS} - 30000 + i / 3")), timeout=600)
    await connection.execute("ANALYZE homing.deliveries", timeout=600)
    await connection.close()


async def measure(url: str, deliveries: int) -> None:
    """Fill, ask, and ask what follows lately recorded events again while there are many."""
    await fill(url, deliveries)
    ledger = Ledger(url, engine="redis", application="bench")
    await ledger.open()
    await ask(ledger)
    await record_lately(url)
    look = await read_open_work(ledger)
    await time_it("top, second look, at 2,000 deliveries a second", lambda: read_pace(ledger, look))
    first = Follower(ledger)
    await first.look()
    await time_it("tail, one look, at 2,000 deliveries a second", first.look)
    await ledger.close()


def main() -> None:
    """A PostgreSQL of its own, in a folder that is deleted afterwards."""
    deliveries = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as postgres:
        stop_with_parent(postgres)
        asyncio.run(measure(postgres.url(), deliveries))


if __name__ == "__main__":
    main()
