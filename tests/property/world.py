"""A small world to play with: a real ledger, a real relay and real runs, an engine that can lose its memory, and a hand on every step.

Runs stop twice: inside their handler, and before the engine hears of their end. Between any two steps anything else may happen.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, Provider, Retry, Transaction, backoff
from homing.clock import ManualClock
from homing.config.settings import Settings
from homing.deadletters.redrive import Redrive
from homing.durations import hours, milliseconds, seconds
from homing.errors import HomingError
from homing.ids import DeliveryKey, new_token
from homing.ledger.actions import Person
from homing.operations.cancel import cancel
from homing.processes.relaying import RelayLoops
from homing.queue.job import ClaimedJob, JobEnd, KeepRule
from homing.queue.memory import MemoryEngine
from homing.queue.memory_entry import State
from homing.queue.port import ClaimRequest, Finished
from homing.relay.relay import ROUTE
from homing.service import Progress
from homing.worker import Worker
from tests.system import System, execute, quick, running, with_sessions

QUEUE = "work"
ONCE, LEAST = f"{QUEUE}.once", f"{QUEUE}.least"
LEASE_SECONDS = 3600.0
MOST_EVENTS = 2
PERSON = Person("alice@test", "a test")
ADD_EFFECT = text("INSERT INTO effects VALUES (:event_id)")
TABLES = "CREATE TABLE effects (event_id uuid)"

ROWS = """
SELECT d.event_id, d.consumer, d.generation, d.outcome,
  (SELECT count(*) FROM effects e WHERE e.event_id = d.event_id) AS effects,
  (SELECT count(*) FROM homing.dead_letters l
   WHERE (l.event_id, l.consumer) = (d.event_id, d.consumer) AND l.closed_at IS NULL) AS open_letters,
  (SELECT l.closed_as FROM homing.dead_letters l WHERE (l.event_id, l.consumer) = (d.event_id, d.consumer)
   ORDER BY l.id DESC LIMIT 1) AS last_closed_as
FROM homing.deliveries d
"""
DUE = """
WITH free AS (SELECT event_id, consumer FROM homing.deliveries WHERE settled_at IS NULL FOR UPDATE SKIP LOCKED)
UPDATE homing.deliveries d SET check_at = now() FROM free WHERE (d.event_id, d.consumer) = (free.event_id, free.consumer)
"""
EMPTY = """
DELETE FROM homing.deliveries; DELETE FROM homing.outbox_events; DELETE FROM homing.dead_letters; DELETE FROM effects;
"""


class Asked(Event, topic="world.asked", unrouted=True):
    number: int = 0


@dataclass(eq=False)
class Live:
    """A run that has begun: `decision` lets its handler end, `may_finish` lets the engine hear of it."""

    job: ClaimedJob
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    decision: asyncio.Future[str] = field(default_factory=asyncio.Future)
    at_finish: asyncio.Event = field(default_factory=asyncio.Event)
    may_finish: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Any] | None = None

    async def reached(self, event: asyncio.Event) -> None:
        """Wait until the run is there or at its finish, or has ended."""
        assert self.task is not None
        waits = [asyncio.ensure_future(one.wait()) for one in (event, self.at_finish)]
        await asyncio.wait({self.task, *waits}, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()


LIVE: ContextVar[Live] = ContextVar("live")


class WatchedEngine:
    """The engine in memory, which tells when a run is about to finish, and refuses an end that the ledger does not know."""

    def __init__(self, inner: MemoryEngine, world: "World") -> None:
        self._inner = inner
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def complete(self, job: ClaimedJob, *args: Any, **terms: Any) -> Finished:
        await self._stop(job, {"done", "cancelled"})
        return await self._inner.complete(job, *args, **terms)

    async def fail(self, job: ClaimedJob, *args: Any, **terms: Any) -> Finished:
        await self._stop(job, {"dead"})
        return await self._inner.fail(job, *args, **terms)

    async def _stop(self, job: ClaimedJob, allowed: set[str]) -> None:
        """Invariant: a job ends only as its row has ended, or where the row is of a newer generation."""
        key = DeliveryKey.parse(job.lease.job_id)
        assert key is not None
        row = await self._world.pool.fetchrow(
            "SELECT outcome, generation FROM homing.deliveries WHERE event_id = $1 AND consumer = $2",
            key.event_id,
            key.consumer,
        )
        if row is None or not (row["outcome"] in allowed or row["generation"] > key.generation):
            self._world.broken.append(f"{job.lease.job_id} would end as one of {allowed}, and its row says {row}")
        live = LIVE.get()
        live.at_finish.set()
        await live.may_finish.wait()


class World:
    """Everything there is; one method for each thing that can happen. `which` picks among what it can happen to."""

    def __init__(self, clock: ManualClock, memory: MemoryEngine) -> None:
        self.clock = clock
        self.memory = memory
        self.engine: Any = WatchedEngine(memory, self)
        self.broken: list[str] = []
        self.system: System
        self.pool: asyncpg.Pool
        self._lives: list[Live] = []
        self._saved: list[Any] = []
        self._before: dict[tuple[UUID, str], asyncpg.Record] = {}
        self.runs: Counter[tuple[UUID, str]] = Counter()
        self.events = 0

    async def begin_anew(self) -> None:
        """Forget what was: a new story, in the next incarnation of the engine's data."""
        await self.kill_all()
        await self.system.sql.execute(EMPTY)
        self.memory.flush()
        self.broken.clear()
        self._saved.clear()
        self._before.clear()
        self.runs.clear()
        self.events = 0
        await self.relay()

    # ── What can happen ─────────────────────────────────────────────────────────────────────────────────────────────

    async def record(self, _: int = 0) -> None:
        """A transaction records an event, for both consumers. Few events, so that steps meet."""
        if self.events == MOST_EVENTS:
            return
        self.events += 1
        await self.system.record(Asked(number=self.events))

    async def relay(self, _: int = 0) -> None:
        """The relay looks at the engine, routes and dispatches."""
        assert self.system.relay is not None
        await self.system.relay.watch.tick()
        while await self.system.relay.relay.tick() is Progress.AGAIN:
            pass

    async def relay_dies(self, _: int = 0) -> None:
        """A relay commits its routing and dies before it dispatches."""
        await self.system.ledger.fetch(ROUTE, page=100, queues=[QUEUE], epochs=[1])

    async def sweep(self, _: int = 0) -> None:
        """Time passes for the deliveries, and the sweep looks at all of them."""
        assert self.system.relay is not None
        await self.system.sql.execute("UPDATE homing.queues SET sweeper_until = now()")
        await self.system.sql.execute(DUE)
        await self.system.relay.watch.tick()
        await self.system.relay.sweep.tick()

    async def claim(self, _: int = 0) -> bool:
        """A worker takes a job and comes as far as the middle of its handler; whether there was one."""
        job = await self.memory.claim(QUEUE, ClaimRequest(new_token(), LEASE_SECONDS))
        if not isinstance(job, ClaimedJob):
            return False
        assert self.system.worker is not None
        live = Live(job)
        token = LIVE.set(live)
        live.task = asyncio.create_task(execute(self.system.worker, job))
        LIVE.reset(token)
        self._lives.append(live)
        await live.reached(live.entered)
        self._sort()
        return True

    async def succeed(self, which: int) -> None:
        """A handler ends well; the engine does not hear of it yet."""
        await self._end(which, "ok")

    async def err(self, which: int) -> None:
        """A handler fails and may be tried again."""
        await self._end(which, "transient")

    async def refuse(self, which: int) -> None:
        """A handler fails for good."""
        await self._end(which, "permanent")

    async def finish(self, which: int) -> None:
        """The engine hears of the end of a run."""
        live = self._pick(which, [live for live in self._lives if live.at_finish.is_set()])
        if live is not None and live.task is not None:
            live.may_finish.set()
            await live.task
            self._sort()

    async def kill(self, which: int) -> None:
        """A worker dies, wherever its run is."""
        live = self._pick(which, self._lives)
        if live is not None and live.task is not None:
            live.task.cancel()
            await asyncio.gather(live.task, return_exceptions=True)
            live.decision.cancel()
            self._lives.remove(live)

    async def kill_all(self) -> None:
        """Every worker dies."""
        while self._lives:
            await self.kill(0)

    async def lose_leases(self, _: int = 0) -> None:
        """Every lease runs out, and the next look gives the jobs back; their runs go on and know nothing of it."""
        self.clock.advance(seconds(LEASE_SECONDS + 1))
        for _ in range(2):
            await self.memory.rescue(QUEUE, 1.0)
            self.clock.advance(seconds(2))

    async def flush(self, _: int = 0) -> None:
        """All of the engine's data is lost."""
        self.memory.flush()

    async def save(self, _: int = 0) -> None:
        """A moment of the engine's past is kept."""
        self._saved.append(self._copy(self.memory._queues))

    async def restore(self, which: int) -> None:
        """The engine is as it was at an earlier moment; with odd `which` nothing gives that away."""
        if self._saved:
            self.memory._queues = self._copy(self._saved[which // 2 % len(self._saved)])
            self.memory._incarnation += 1 - which % 2

    async def redrive(self, which: int) -> None:
        """Two people redrive the same letter at once."""
        letters = await self.system.sql.fetch("SELECT id FROM homing.dead_letters WHERE closed_at IS NULL ORDER BY id")
        if letters:
            letter = letters[which % len(letters)]["id"]
            answers = await asyncio.gather(
                *(Redrive(self.system.ledger).redrive(letter, PERSON) for _ in range(2)), return_exceptions=True
            )
            for answer in answers:
                if isinstance(answer, BaseException) and not isinstance(answer, HomingError):
                    raise answer
            if sum(not isinstance(answer, BaseException) for answer in answers) > 1:
                self.broken.append(f"letter {letter} was redriven twice")

    async def retry_in_place(self, which: int) -> None:
        """Somebody presses the retry button of a queue tool."""
        queue = self.memory._queue(QUEUE)
        failed = sorted(queue._finished[State.FAILED])
        if failed:
            entry = queue._entries[failed[which % len(failed)]]
            del queue._finished[State.FAILED][entry.job.id]
            entry.end = JobEnd()
            queue._line_up(entry)

    async def swallow(self, _: int = 0) -> None:
        """A stranger's worker takes a job and completes it."""
        job = await self.memory.claim(QUEUE, ClaimRequest(new_token(), LEASE_SECONDS))
        if isinstance(job, ClaimedJob):
            await self.memory.complete(job, "null", mark=None, keep=KeepRule(), claim_next=None)

    async def cancel(self, which: int) -> None:
        """A person cancels a delivery."""
        ids = [
            DeliveryKey(row["event_id"], row["consumer"], row["generation"]).job_id
            for row in await self.system.sql.fetch(
                "SELECT event_id, consumer, generation FROM homing.deliveries ORDER BY 1, 2"
            )
        ]
        if ids:
            await cancel(self.system.ledger, self.memory, [ids[which % len(ids)]], PERSON)

    # ── What must be true ───────────────────────────────────────────────────────────────────────────────────────────

    async def check(self) -> None:
        """Raise when a promise is broken now."""
        assert self.broken == []
        rows = {(row["event_id"], row["consumer"]): row for row in await self.system.sql.fetch(ROWS)}
        assert self._before.keys() <= rows.keys()
        for key, row in rows.items():
            done = row["outcome"] == "done"
            if row["consumer"] == ONCE:
                assert row["effects"] == int(done), f"{row['effects']} effects: {row}"
            elif done:
                assert self.runs[key] > 0, f"done without a run: {row}"
            named = row["open_letters"] == 1 or (row["open_letters"] == 0 and row["last_closed_as"] == "dismissed")
            assert (row["outcome"] == "dead") == named, f"its letters say something else: {row}"
            if key in self._before:
                assert _may_follow(self._before[key], row), f"{self._before[key]} became {row}"
        self._before = rows

    async def settle_down(self) -> None:
        """All servers are up and everybody does their work: in the end every event is where it must be."""
        await self.kill_all()
        await self.lose_leases()
        for _ in range(20):
            await self.relay()
            await self.sweep()
            self.clock.advance(seconds(40))
            await self._work_off()
            await self.check()
            if await self.system.unsettled() == 0:
                break
        counted = await self.system.sql.fetch(
            "SELECT count(*) AS n, array_agg(outcome) AS outcomes FROM homing.deliveries GROUP BY event_id"
        )
        assert len(counted) == self.events
        assert all(row["n"] == 2 and None not in row["outcomes"] for row in counted), counted

    async def _work_off(self) -> None:
        """Run whatever can be claimed."""
        while await self.claim():
            await self.succeed(0)
            await self.finish(0)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def handle(self, event: Asked, consumer: str) -> None:
        """What a handler does: wait for its fate."""
        self.runs[event.event_id, consumer] += 1
        live = LIVE.get()
        live.entered.set()
        how = await live.decision
        if how == "permanent":
            raise PermanentError("for good")
        if how == "transient":
            raise RuntimeError("once more")

    async def _end(self, which: int, how: str) -> None:
        inside = [live for live in self._lives if live.entered.is_set() and not live.decision.done()]
        live = self._pick(which, inside)
        if live is not None:
            live.decision.set_result(how)
            await live.reached(live.at_finish)
            self._sort()

    def _sort(self) -> None:
        """Leave out what has ended; an error of ours is raised here."""
        for live in [live for live in self._lives if live.task is not None and live.task.done()]:
            self._lives.remove(live)
            assert live.task is not None
            live.task.result()

    def _pick(self, which: int, among: list[Live]) -> Live | None:
        return among[which % len(among)] if among else None

    def _copy(self, queues: Any) -> Any:
        return copy.deepcopy(queues, {id(one): one for one in (self.clock, self.memory)})


def _may_follow(before: asyncpg.Record, after: asyncpg.Record) -> bool:
    """Which states of a delivery may follow each other, over any number of transitions."""
    if after["generation"] < before["generation"]:
        return False
    if before["outcome"] in ("done", "cancelled"):
        return (before["outcome"], before["generation"]) == (after["outcome"], after["generation"])
    if before["outcome"] == "dead" and after["outcome"] == "cancelled":
        return bool(after["last_closed_as"])
    return True


@asynccontextmanager
async def world_of(settings: Settings) -> AsyncIterator[World]:
    """A world on this test's database, whose loops are never started: nothing happens that no step makes happen."""
    clock = ManualClock()
    world = World(clock, MemoryEngine(clock))
    app = Homing("world", retry=Retry(attempts=3, backoff=backoff.fixed(milliseconds(10))))
    queue = app.queue(QUEUE)

    @queue.handler("once", on=Asked)
    async def once(event: Asked, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD_EFFECT, {"event_id": event.event_id})
        await world.handle(event, ONCE)

    @queue.handler("least", on=Asked, at_least_once=True)
    async def least(event: Asked) -> None:
        await world.handle(event, LEAST)

    still = quick(settings, lease=hours(1), beat=hours(10), look_rate=1e6, attempt_timeout=hours(1))
    with_sessions(app, settings)
    async with (
        running(app, still, worker=False, relay=False, engine=world.engine) as system,
        AsyncExitStack() as stack,
    ):
        assert app.open_resources is not None
        provider = Provider()
        await stack.enter_async_context(app.open_resources(provider))
        worker = Worker(app, still, ledger=system.ledger, engine=world.engine, provider=provider, queues={})
        await worker.start()
        stack.push_async_callback(worker.stop, 0)
        loops = RelayLoops(app, still, ledger=system.ledger, engine=world.engine)
        world.system = replace(system, worker=worker, relay=loops)
        await system.sql.execute(TABLES)
        world.pool = await asyncpg.create_pool(settings.asyncpg_dsn, min_size=1)
        yield world
        await world.kill_all()
        await world.pool.close()
