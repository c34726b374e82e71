"""The relay on bad days of the engine: silent, away, full, unreachable at the start."""

from collections import Counter
from contextlib import suppress
from functools import partial
from uuid import UUID

import pytest
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.embedded import EmbeddedValkey
from homing.errors import ServerUnavailable
from homing.ledger.look import VANISHED_LIMIT
from homing.queue.redis import RedisEngine
from homing.queue.redis.keys import QueueKeys
from homing.relay import backing
from tests.system import System, quick, running
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

SILENCE_SECONDS = 0.5


class Asked(Event, topic="outage.asked", unrouted=True):
    number: int


class AskedElsewhere(Event, topic="outage.asked.elsewhere", unrouted=True):
    number: int


def counting_app(seen: Counter[UUID]) -> Homing:
    app = Homing("test")

    @app.queue("work", concurrency=20).handler("count", on=Asked, at_least_once=True)
    async def count(event: Asked) -> None:
        seen[event.event_id] += 1

    return app


def impatient(settings: Settings, url: str) -> RedisEngine:
    """An engine that gives a silent server up soon."""
    return RedisEngine(url, prefix=settings.prefix or "own", silence_seconds=SILENCE_SECONDS)


async def make_due(system: System) -> None:
    """Let the look come now instead of half a minute after the dispatch that failed."""
    await system.sql.execute("UPDATE homing.deliveries SET check_at = now() WHERE settled_at IS NULL")


async def routed(system: System, deliveries: int) -> bool:
    """Whether so many deliveries were opened."""
    return bool(await system.sql.fetchval("SELECT count(*) = $1 FROM homing.deliveries", deliveries))


async def test_silent_engine_loses_nothing(disposable_settings: Settings, disposable_valkey: EmbeddedValkey) -> None:
    """While the engine takes everything and answers nothing, events wait in the database; afterwards each is handled."""
    seen: Counter[UUID] = Counter()
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    async with TcpProxy(disposable_valkey.port) as proxy:
        engine = impatient(settings, proxy.url(settings.redis_dsn))
        async with running(counting_app(seen), settings, engine=engine) as system:
            await system.record(Asked(number=0))
            await system.settled()
            proxy.silence()
            events: list[Event] = [Asked(number=number) for number in range(1, 40)]
            for event in events:
                await system.record(event)
            relay = system.relay
            assert relay is not None
            await until(lambda: relay.watch.epochs == {}, what="the relay noticed the silence")
            late = Asked(number=40)
            await system.record(late)
            assert await system.unsettled() == 40
            assert len(seen) == 1
            await proxy.heal()
            await until(lambda: relay.watch.epochs, what="the relay verified the engine again")
            await make_due(system)
            await system.settled(timeout_seconds=20)
            assert set(seen) >= {event.event_id for event in (*events, late)}
            assert await system.letters() == []
            assert all(loop.running for loop in relay.loops)


async def test_page_that_could_not_be_dispatched_flows_as_soon_as_the_engine_is_back(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """Routed deliveries whose dispatch failed need not wait for their time: they are due once the engine is verified again."""
    seen: Counter[UUID] = Counter()
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    async with TcpProxy(disposable_valkey.port) as proxy:
        engine = impatient(settings, proxy.url(settings.redis_dsn))
        async with running(counting_app(seen), settings, worker=False, engine=engine) as system:
            relay = system.relay
            assert relay is not None
            proxy.silence()
            await system.record(Asked(number=0))
            await until(lambda: routed(system, 1), what="the event is routed")
            await until(lambda: relay.watch.epochs == {}, what="the relay noticed the silence")
            await proxy.heal()

            async def waiting() -> bool:
                return (await system.engine.counts("work")).waiting == 1

            await until(lambda: relay.watch.epochs, what="the relay verified the engine again")
            await until(waiting, 10, "the job waits in the engine")


@pytest.mark.parametrize("trouble", ["full", "read-only"])
async def test_engine_that_only_answers_reads_buries_nothing(
    disposable_settings: Settings,
    disposable_valkey: EmbeddedValkey,
    unused_tcp_port: int,
    caplog: pytest.LogCaptureFixture,
    trouble: str,
) -> None:
    """A server without memory for writes, or one that became a replica, is no reason for a death, however often it is asked."""
    seen: Counter[UUID] = Counter()
    settings = quick(disposable_settings, relay_poll=milliseconds(50))
    async with running(counting_app(seen), settings) as system:
        await system.record(Asked(number=0))
        await system.settled()
        with Redis.from_url(disposable_valkey.url()) as client:
            if trouble == "full":
                client.config_set("maxmemory", "1")
            else:
                client.replicaof("127.0.0.1", unused_tcp_port)
            await system.record(Asked(number=1))
            relay = system.relay
            assert relay is not None
            await until(lambda: routed(system, 2), what="the event is routed")

            async def asked() -> bool:
                relay.watch.trust("work")  # as if its rest were over
                with suppress(ServerUnavailable):  # a replica is left alone: another server may be the primary by now
                    await relay.watch.tick()
                return trouble == "read-only" or bool(relay.watch.epochs)

            for _ in range(VANISHED_LIMIT + 1):  # more often than a vanished job is forgiven
                await until(asked, what="a queue of a full server is verified, since reading works")
                await make_due(system)
                with suppress(ServerUnavailable):
                    await relay.sweep.tick()
            assert await system.letters() == []
            assert await system.unsettled() == 1
            client.config_set("maxmemory", "0")
            client.replicaof("NO", "ONE")
        assert "the loop goes on" not in caplog.text  # every loop knew what it met
        relay.watch.trust("work")
        await system.settled(timeout_seconds=20)
        assert len(seen) == 2


async def test_engine_that_is_away_at_the_start_is_an_error(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """A process that finds no engine says so and does not start; it has routed nothing."""
    disposable_valkey.stop()
    with pytest.raises(ServerUnavailable, match="cannot connect"):
        async with running(counting_app(Counter()), quick(disposable_settings)):
            raise AssertionError("it started")


async def test_engine_that_goes_away_later_is_waited_for(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """An engine that is killed and comes back finds the relay and the worker where they were, and every event is handled."""
    seen: Counter[UUID] = Counter()
    async with running(counting_app(seen), quick(disposable_settings, relay_poll=milliseconds(50))) as system:
        await system.record(Asked(number=0))
        await system.settled()
        disposable_valkey.kill()
        relay = system.relay
        assert relay is not None
        await until(lambda: relay.watch.epochs == {}, what="the relay noticed")
        for number in range(1, 30):
            await system.record(Asked(number=number))
        assert await system.unsettled() == 29
        disposable_valkey.start()
        await system.settled(timeout_seconds=30)
        assert len(seen) == 30
        assert await system.letters() == []


async def test_queue_that_cannot_be_claimed_from_does_not_hold_up_the_others(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """When one queue's keys are broken, the worker says so and goes on with its other queues at full speed."""
    seen: Counter[UUID] = Counter()
    app = counting_app(seen)

    @app.queue("broken").handler("do", on=AskedElsewhere, at_least_once=True)
    async def do(event: AskedElsewhere) -> None: ...

    with Redis.from_url(disposable_valkey.url()) as client:
        client.set(QueueKeys("own", "broken").part("wait"), "no list")
    async with running(app, quick(disposable_settings)) as system:
        await until(lambda: "queue broken: nothing can be claimed" in caplog.text, what="the broken queue is reported")
        for handled in range(1, 31):
            await system.record(Asked(number=handled))
            await until(partial(has_seen, seen, handled), 2, "the event is handled")


async def test_queue_that_takes_no_jobs_rests_and_costs_the_others_nothing(
    disposable_settings: Settings,
    disposable_valkey: EmbeddedValkey,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue whose keys are broken is left alone while the one beside it flows; mended, it gets the job that a broken script half made."""
    for name in ("FIRST_SECONDS", "LONGEST_SECONDS"):
        monkeypatch.setattr(backing, name, 600)
    seen: Counter[UUID] = Counter()
    app = counting_app(seen)

    @app.queue("broken").handler("do", on=AskedElsewhere, at_least_once=True)
    async def do(event: AskedElsewhere) -> None:
        seen[event.event_id] += 1

    broken = QueueKeys("own", "broken").part("wait")
    with Redis.from_url(disposable_valkey.url()) as client:
        client.set(broken, "no list")
        async with running(app, quick(disposable_settings, relay_poll=milliseconds(50)), worker=False) as system:
            relay = system.relay
            assert relay is not None
            await until(lambda: len(relay.watch.epochs) == 2, what="both queues are verified")
            await system.record(AskedElsewhere(number=0))
            await until(lambda: "broken" not in relay.watch.epochs, what="the broken queue rests")
            for number in range(1, 16):
                await system.record(Asked(number=number))
                await until(partial(waits, system, number), 5, "the job of the other queue waits")
            tries = sum(line.startswith("queue broken") and "WRONGTYPE" in line for line in caplog.messages)
            assert 1 <= tries <= 2
            client.delete(broken)
            relay.watch.trust("broken")
            await until(lambda: "broken" in relay.watch.epochs, what="the queue is verified")

            async def back() -> bool:
                return (await system.engine.counts("broken")).waiting == 1

            await until(back, what="its job waits")
            assert await system.letters() == []


async def waits(system: System, jobs: int) -> bool:
    """Whether so many jobs wait in the sound queue."""
    return (await system.engine.counts("work")).waiting == jobs


def has_seen(seen: Counter[UUID], events: int) -> bool:
    """Whether so many events were handled."""
    return len(seen) == events
