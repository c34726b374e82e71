"""Limits by key on real servers: one tenant that has too many jobs, or is throttled, costs the others nothing."""

import time

import pytest
from redis import Redis

from homing import Event, Homing, Job, Key, RateLimit, Retry, Throttled
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.errors import RegistrationError
from homing.ids import JobId
from homing.queue.port import Limit
from homing.queue.redis import RedisEngine
from tests.system import System, quick, running
from tests.waiting import until

PAUSE_SECONDS = 0.6
NEVER = 600.0
"""Seconds that no test waits for."""


class Sent(Event, topic="keys.sent", unrouted=True):
    tenant_id: str | None
    number: int = 0


class Starts:
    """Which job of which tenant started when, and as which attempt."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, float, int]] = []

    def note(self, event: Sent, job: Job) -> None:
        self.seen.append((event.tenant_id or "", event.number, time.monotonic(), job.attempt))

    def of(self, tenant: str) -> list[float]:
        return [at for name, _, at, _ in self.seen if name == tenant]


class NotingEngine(RedisEngine):
    """Notes when each permit was asked for and when it was there: it was given in between, whatever the machine does meanwhile."""

    def __init__(self, settings: Settings, granted: list[tuple[float, float]]) -> None:
        super().__init__(settings.redis_dsn, prefix=settings.prefix or "")
        self._granted = granted

    async def permit(self, queue: str, job_id: JobId, key: str, limit: Limit | None) -> float:
        asked = time.monotonic()
        wait_seconds = await super().permit(queue, job_id, key, limit)
        if wait_seconds == 0 and key == "busy":
            self._granted.append((asked, time.monotonic()))
        return wait_seconds


async def record_and_wait(system: System, events: list[Sent]) -> None:
    """Record, and wait until every job waits, so that all of them are claimed in one go."""
    await system.record(*events)

    async def all_wait() -> bool:
        return (await system.engine.counts("mail")).waiting == len(events)

    await until(all_wait, what="all jobs wait")


async def test_two_workers_keep_to_the_rate_of_each_key(settings: Settings, redis_url: str, redis_prefix: str) -> None:
    """Twelve jobs of one tenant at four each half second take a second, and nobody pays an attempt or a start."""
    app, starts = Homing("test"), Starts()
    queue = app.queue("mail", concurrency=4, limit_key="tenant_id", key_limit=RateLimit(4, per=milliseconds(500)))

    @queue.handler("send", on=Sent, at_least_once=True)
    async def send(event: Sent, job: Job) -> None:
        starts.note(event, job)

    busy = [Sent(tenant_id="busy", number=number) for number in range(12)]
    others = [Sent(tenant_id=tenant) for tenant in ("calm", "quiet", None)]
    granted: list[tuple[float, float]] = []
    async with running(app, quick(settings), worker=False) as system:
        await record_and_wait(system, [*busy, *others])
        one, two = (NotingEngine(settings, granted) for _ in range(2))
        async with (
            running(app, quick(settings), relay=False, engine=one),
            running(app, quick(settings), relay=False, engine=two),
        ):
            await system.settled(20)
    granted.sort()
    assert len(granted) == 12
    assert granted[-1][1] - granted[0][0] >= 0.99
    assert min(later[1] - earlier[0] for earlier, later in zip(granted, granted[8:], strict=False)) > 0.49
    assert {attempt for *_, attempt in starts.seen} == {1}
    with Redis.from_url(redis_url, decode_responses=True) as client:
        finished = client.zrange(f"{redis_prefix}:mail:completed", 0, -1)
        assert {client.hget(f"{redis_prefix}:mail:{job}", "ats") for job in finished} == {"1"}


def throttled_app(starts: Starts, pause_seconds: float, scope: Key | None = None) -> Homing:
    """The provider throttles the first job."""
    app = Homing("test")
    queue = app.queue("mail", concurrency=1, limit_key=lambda event: event.tenant_id, retry=Retry(attempts=1))

    @queue.handler("send", on=Sent, at_least_once=True)
    async def send(event: Sent, job: Job) -> None:
        starts.note(event, job)
        if len(starts.seen) == 1:
            raise Throttled(pause_seconds, scope=scope)

    return app


async def test_one_key_holds_up_no_other(settings: Settings) -> None:
    """Tenants that wait for their window or for their provider leave the slots to the others."""
    rated, starts = Homing("test"), Starts()
    queue = rated.queue("mail", concurrency=2, limit_key="tenant_id", key_limit=RateLimit(1, per=seconds(NEVER)))

    @queue.handler("send", on=Sent, at_least_once=True)
    async def send(event: Sent, job: Job) -> None:
        starts.note(event, job)

    tenants = ["busy"] * 6 + ["calm", "quiet", None]
    async with running(rated, quick(settings), worker=False) as system:
        await record_and_wait(system, [Sent(tenant_id=tenant) for tenant in tenants])
        async with running(rated, quick(settings), relay=False):
            await until(lambda: len(starts.seen) == 4)
    assert {tenant for tenant, *_ in starts.seen} == {"busy", "calm", "quiet", ""}


@pytest.mark.parametrize("scope", [None, Key("busy")], ids=["by default", "a key by name"])
async def test_throttled_pauses_the_key_alone(settings: Settings, scope: Key | None) -> None:
    """All jobs of the tenant wait for as long as the provider says; the others do not."""
    starts = Starts()
    app = throttled_app(starts, NEVER, scope)
    events = [Sent(tenant_id=tenant, number=number) for number in range(3) for tenant in ("busy", "calm")]
    async with running(app, quick(settings), worker=False) as system:
        await record_and_wait(system, events)
        async with running(app, quick(settings), relay=False):
            await until(lambda: len(starts.of("calm")) == 3)
    assert len(starts.of("busy")) == 1


async def test_a_throttled_key_goes_on_after_its_time(settings: Settings) -> None:
    """Not before it, and no attempt is spent."""
    starts = Starts()
    app = throttled_app(starts, PAUSE_SECONDS)
    events = [Sent(tenant_id=tenant, number=number) for number in range(3) for tenant in ("busy", "calm")]
    async with running(app, quick(settings), worker=False) as system:
        await record_and_wait(system, events)
        async with running(app, quick(settings), relay=False):
            await system.settled(20)
    busy = starts.of("busy")
    assert len(busy) == 4
    assert busy[1] - busy[0] >= PAUSE_SECONDS * 0.99
    assert {attempt for *_, attempt in starts.seen} == {1}


async def test_a_key_that_cannot_be_read_is_its_jobs_failure(settings: Settings) -> None:
    """A function of the application that fails ends its own job as a handler's error does, and no other."""
    app, starts = Homing("test"), Starts()
    queue = app.queue("mail", limit_key=lambda event: event.tenant_id.upper(), retry=Retry(attempts=1))

    @queue.handler("send", on=Sent, at_least_once=True)
    async def send(event: Sent, job: Job) -> None:
        starts.note(event, job)

    async with running(app, quick(settings)) as system:
        await system.record(Sent(tenant_id=None), Sent(tenant_id="calm"))
        await system.settled()
        (letter,) = await system.letters()
    assert "has no attribute 'upper'" in letter["error"]
    assert len(starts.of("calm")) == 1


def test_what_cannot_be_limited_by_is_refused() -> None:
    """A field that the events do not have, and a limit of keys without a key, are told at registration."""
    app = Homing("test")
    with pytest.raises(RegistrationError, match="queue 'mail' limits by key and says no limit_key"):
        app.queue("mail", key_limit=RateLimit(1, per=seconds(1)))
    queue = app.queue("mail", limit_key="tenant")
    with pytest.raises(RegistrationError, match="limits by 'tenant', which Sent does not have"):

        @queue.handler("send", on=Sent, at_least_once=True)
        async def send(event: Sent) -> None: ...
