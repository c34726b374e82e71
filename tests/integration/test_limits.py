"""Limits on real servers: queues that pause, rates and bounds over several workers, and limits that outlive a flush."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
from redis import Redis

from homing import Event, Homing, Job, RateLimit, Retry, Throttled
from homing.config.settings import Settings
from homing.durations import milliseconds, minutes, seconds
from homing.embedded import EmbeddedValkey
from homing.errors import ServerUnavailable
from homing.processes.relaying import RelayLoops
from homing.queue.job import NewJob
from homing.queue.port import AddResult, QueueSettings
from homing.queue.redis import RedisEngine
from homing.relay import register
from homing.worker import lanes
from tests.system import System, quick, running
from tests.waiting import until

PAUSE_SECONDS = 0.6
NEVER = 600.0
"""Seconds that no test waits for: what happens nevertheless happened for another reason."""


class Asked(Event, topic="limits.asked", unrouted=True):
    number: int = 0


class Other(Event, topic="limits.other", unrouted=True):
    number: int = 0


class Seen:
    """When which number was started, with which attempt, and how often the other queue was served."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        self.at: list[float] = []
        self.others = 0

    def note(self, number: int, attempt: int = 1) -> None:
        self.starts.append((number, attempt))
        self.at.append(time.monotonic())


def throttling_app(seen: Seen, error: Throttled, limit: RateLimit | None) -> Homing:
    """Number 1 is throttled at its first run; another queue runs beside it."""
    app = Homing("test")

    @app.queue("work", concurrency=1, limit=limit).handler("do", on=Asked, at_least_once=True, retry=Retry(attempts=1))
    async def do(event: Asked, job: Job) -> None:
        seen.note(event.number, job.attempt)
        if event.number == 1 and len(seen.starts) == 1:
            raise error

    @app.queue("other").handler("do", on=Other, at_least_once=True)
    async def other(event: Other) -> None:
        seen.others += 1

    return app


@pytest.mark.parametrize(
    ("limit", "scope", "pauses"),
    [
        (RateLimit(100, per=seconds(1)), None, True),
        (None, None, False),
        (None, "queue", True),
        (RateLimit(100, per=seconds(1)), "job", False),
    ],
    ids=["limited", "without limit", "asked for the queue", "asked for the job"],
)
async def test_throttled_pauses_its_queue_or_delays_its_job(
    settings: Settings, limit: RateLimit | None, scope: str | None, *, pauses: bool
) -> None:
    """With a limit the whole queue waits and the job is first afterwards; without one only the job waits. No attempt is spent."""
    seen = Seen()
    error = Throttled(PAUSE_SECONDS, scope=scope)  # type: ignore[arg-type]  # one of the two, or nothing
    app = throttling_app(seen, error, limit)
    async with running(app, quick(settings), worker=False) as system:
        await system.record(Asked(number=1))
        await until(lambda: _waiting(system, 1))
        await system.record(Asked(number=2), Asked(number=3))
        await until(lambda: _waiting(system, 3))
        async with running(app, quick(settings), relay=False):
            await system.settled()
    order = [1, 1, 2, 3] if pauses else [1, 2, 3, 1]
    assert seen.starts == [(number, 1) for number in order]
    again = 1 if pauses else 3
    assert seen.at[again] - seen.at[0] >= PAUSE_SECONDS * 0.99


async def test_a_queue_that_is_throttled_leaves_the_others_alone(settings: Settings) -> None:
    """While the limited queue waits for its provider, the queue beside it goes on in the same worker."""
    seen = Seen()
    app = throttling_app(seen, Throttled(NEVER), RateLimit(100, per=seconds(1)))
    async with running(app, quick(settings)) as system:
        await system.record(Asked(number=1))
        await until(lambda: seen.starts)
        await system.record(Asked(number=2), Other(), Other())
        await until(lambda: seen.others == 2)
    assert seen.starts == [(1, 1)]


async def test_each_window_begins_when_the_last_one_ends(
    settings: Settings, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve jobs at four each half second take a second: nobody waits for the next poll, and nobody asks in between."""
    monkeypatch.setattr(lanes, "POLL_SECONDS", NEVER)
    app = Homing("test")

    @app.queue("work", concurrency=4, limit=RateLimit(4, per=milliseconds(500))).handler(
        "do", on=Asked, at_least_once=True
    )
    async def do(event: Asked) -> None: ...

    async with running(app, quick(settings, rescue=minutes(9)), worker=False) as system:
        await system.record(*(Asked(number=number) for number in range(12)))
        await until(lambda: _waiting(system, 12))
        before = _calls(redis_url)
        async with running(app, quick(settings, rescue=minutes(9)), relay=False):
            await system.settled()
        calls = _calls(redis_url) - before
    starts = _started(redis_url, redis_prefix)
    assert len(starts) == 12
    assert starts[4] - starts[0] >= 490
    assert starts[8] - starts[0] >= 990
    # 12 finishes and 12 starts at most, and a few claims in vain for every window
    assert calls["evalsha"] < 48
    assert calls["bzpopmin"] < 24


async def test_ten_workers_keep_to_one_limit_together(settings: Settings, redis_url: str, redis_prefix: str) -> None:
    """The rate is the queue's: whoever starts a job, the first one of each window is a window later than that of the last."""
    seen = Seen()
    app = Homing("test")
    limit = RateLimit(5, per=milliseconds(400))

    @app.queue("work", concurrency=4, limit=limit).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        seen.note(event.number)

    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(running(app, quick(settings), worker=False))
        await system.record(*(Asked(number=number) for number in range(30)))
        await until(lambda: _waiting(system, 30))
        for _ in range(10):
            await stack.enter_async_context(running(app, quick(settings), relay=False))
        await system.settled(20)
    assert sorted(seen.starts) == [(number, 1) for number in range(30)]
    starts = _started(redis_url, redis_prefix)
    assert all(starts[5 * window] - starts[0] >= window * 400 - 10 for window in range(1, 6)), starts


async def test_workers_together_run_no_more_than_the_global_concurrency(settings: Settings) -> None:
    """Two workers with room for ten run two jobs at once, and all of them in the end."""
    app = Homing("test")
    gate = asyncio.Semaphore(0)
    active: set[int] = set()
    peaks: list[int] = []

    @app.queue("work", concurrency=5, global_concurrency=2).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        active.add(event.number)
        peaks.append(len(active))
        await gate.acquire()
        active.discard(event.number)

    async with running(app, quick(settings)) as system, running(app, quick(settings), relay=False):
        await system.record(*(Asked(number=number) for number in range(12)))

        async def full() -> bool:
            counts = await system.engine.counts("work")
            return len(active) == 2 and counts.active == 2 and counts.waiting == 10

        await until(full)
        for _ in range(12):
            gate.release()
        await system.settled(20)
    assert max(peaks) == 2
    assert len(peaks) == 12


class NotingEngine(RedisEngine):
    """Notes pushes and adds in their order; refuses pushes when it is told to."""

    def __init__(self, url: str, *, prefix: str) -> None:
        super().__init__(url, prefix=prefix)
        self.calls: list[str] = []
        self.refuses = False

    async def push_settings(self, queue: str, settings: QueueSettings) -> None:
        if self.refuses:
            raise ServerUnavailable("no settings today")
        await super().push_settings(queue, settings)
        self.calls.append("push")

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult]:
        self.calls.append("add")
        return await super().add(queue, jobs)


async def test_limits_are_back_after_a_flush_before_any_job_is(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """In a new epoch the queue has its concurrency and its limit before the first job is dispatched again."""
    app = Homing("test")

    @app.queue("work", global_concurrency=2, limit=RateLimit(3, per=seconds(2))).handler(
        "do", on=Asked, at_least_once=True
    )
    async def do(event: Asked) -> None: ...

    engine = NotingEngine(disposable_settings.redis_dsn, prefix="own")
    async with running(app, quick(disposable_settings), worker=False, engine=engine) as system:
        await system.record(*(Asked(number=number) for number in range(5)))
        await until(lambda: _waiting(system, 5))
        with Redis.from_url(disposable_valkey.url(), decode_responses=True) as client:
            engine.calls.clear()
            client.flushall()
            await until(lambda: _waiting(system, 5))
            assert engine.calls.index("push") < engine.calls.index("add")
            assert client.hmget("own:work:meta", "concurrency", "max", "duration") == ["2", "3", "2000"]


async def test_a_queue_without_its_limits_gets_no_job(settings: Settings, redis_prefix: str) -> None:
    """As long as the engine does not take a queue's settings, nothing is dispatched to it; then everything is."""
    app = Homing("test")

    @app.queue("work", global_concurrency=2).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None: ...

    engine = NotingEngine(settings.redis_dsn, prefix=redis_prefix)
    async with running(app, quick(settings), worker=False, relay=False, engine=engine) as system:
        relay = RelayLoops(app, settings, ledger=system.ledger, engine=engine)
        engine.refuses = True
        with pytest.raises(ServerUnavailable, match="no settings today"):
            await relay.watch.tick()
        assert relay.watch.epochs == {}
        await system.record(Asked())
        await relay.relay.tick()
        assert await _waiting(system, 0)
        engine.refuses = False
        await relay.watch.tick()
        assert relay.watch.epochs == {"work": 1}
        assert "add" not in engine.calls


async def test_a_job_of_a_former_queue_pauses_nothing(settings: Settings, redis_url: str, redis_prefix: str) -> None:
    """A handler that moved to a limited queue delays the old jobs alone: the new queue's limit is not the old queue's."""
    before, after = Homing("test"), Homing("test")
    runs: list[str] = []

    @before.queue("old").handler("do", on=Asked, at_least_once=True, consumer="mover")
    async def do(event: Asked) -> None: ...

    after.queue("old")

    @after.queue("new", limit=RateLimit(9, per=seconds(1))).handler(
        "do", on=Asked, at_least_once=True, consumer="mover"
    )
    async def moved(event: Asked, job: Job) -> None:
        runs.append(job.queue)
        if len(runs) == 1:
            raise Throttled(0.05)

    async with running(before, quick(settings), worker=False) as system:
        await system.record(Asked())

        async def waits() -> bool:
            return (await system.engine.counts("old")).waiting == 1

        await until(waits)
    async with running(after, quick(settings)) as system:
        await system.settled()
        assert runs == ["old", "old"]
        with Redis.from_url(redis_url, decode_responses=True) as client:
            assert client.hget(f"{redis_prefix}:old:meta", "max") is None
            assert client.hget(f"{redis_prefix}:new:meta", "max") == "9"


async def test_a_change_of_the_row_reaches_the_queue(settings: Settings, redis_url: str, redis_prefix: str) -> None:
    """What a person writes into the ledger holds for the queue within a tick, and nothing is pushed while nothing changes."""
    app = Homing("test")

    @app.queue("work").handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None: ...

    engine = NotingEngine(settings.redis_dsn, prefix=redis_prefix)
    async with running(app, quick(settings), worker=False, engine=engine) as system:
        assert system.relay is not None
        await system.relay.watch.tick()
        engine.calls.clear()
        await system.relay.watch.tick()
        assert engine.calls == []
        await system.sql.execute("UPDATE homing.queues SET settings = settings || '{\"concurrency\": 7}'")
        with Redis.from_url(redis_url, decode_responses=True) as client:
            await until(lambda: client.hget(f"{redis_prefix}:work:meta", "concurrency") == "7")


async def test_code_declares_people_override_and_what_is_declared_no_more_goes(settings: Settings) -> None:
    """The row follows every change of the code; as long as the code stays the same, a person's change stays too."""

    def declare(**options: object) -> Homing:
        app = Homing("test")
        app.queue("work", **options)  # type: ignore[arg-type]  # by name
        return app

    async with running(Homing("test"), quick(settings), worker=False, relay=False) as system:

        async def kept(app: Homing) -> dict[str, object]:
            await register(system.ledger, app.handlers, app.queues)
            row = await system.sql.fetchrow(
                "SELECT settings->'concurrency' AS concurrency, settings->'max' AS max FROM homing.queues"
            )
            return {name: value for name, value in dict(row or {}).items() if value is not None}

        assert await kept(declare()) == {}
        limited = declare(global_concurrency=3, limit=RateLimit(4, per=seconds(1)))
        assert await kept(limited) == {"concurrency": "3", "max": "4"}
        await system.sql.execute("UPDATE homing.queues SET settings = settings || '{\"max\": 2}'")
        assert await kept(limited) == {"concurrency": "3", "max": "2"}
        assert await kept(declare(global_concurrency=5)) == {"concurrency": "5", "max": "null"}
        assert await kept(declare()) == {"concurrency": "null", "max": "null"}
        assert await kept(limited) == {"concurrency": "3", "max": "4"}


async def _waiting(system: System, number: int) -> bool:
    return (await system.engine.counts("work")).waiting == number


def _started(url: str, prefix: str) -> list[int]:
    """When jobs were started, in milliseconds of the server's clock, which is the one that ends windows."""
    with Redis.from_url(url, decode_responses=True) as client:
        entries = client.xrange(f"{prefix}:work:events")
    return [int(at.partition("-")[0]) for at, fields in entries if fields["event"] == "active"]


def _calls(url: str) -> Counter[str]:
    """How often each command was called on the server so far."""
    with Redis.from_url(url) as client:
        stats = client.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): values["calls"] for name, values in stats.items()})
