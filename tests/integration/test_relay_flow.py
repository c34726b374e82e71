"""The relay at work: every event once, whoever routes it, and rest when there is nothing to do."""

import time
from collections import Counter
from uuid import UUID

import asyncpg
import pytest

from homing import Event, Homing, record
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.ledger.ledger import Ledger, Row
from homing.relay.relay import ROUTE
from homing.schema.statement import Statement
from tests.system import System, quick, running
from tests.waiting import until

EVENTS = 10_000
POLL_SECONDS = 0.1


class Ticked(Event, topic="flow.ticked", unrouted=True):
    number: int


class Unheard(Event, topic="flow.unheard", unrouted=True):
    number: int


def counting_app(name: str, seen: Counter[UUID]) -> Homing:
    """An app whose only handler counts its events."""
    app = Homing(name)

    @app.queue("ticks", concurrency=50).handler("count", on=Ticked, at_least_once=True)
    async def count(event: Ticked) -> None:
        seen[event.event_id] += 1

    return app


async def record_many(system: System, events: list[Event]) -> None:
    """Record in transactions of a thousand."""
    for start in range(0, len(events), 1000):
        await system.record(*events[start : start + 1000])


async def test_two_relays_and_two_sweeps_deliver_each_event_once(settings: Settings) -> None:
    """Ten thousand events, two relays, two sweeps, two workers: each handler call happens exactly once."""
    seen: Counter[UUID] = Counter()
    busy = quick(settings, lease=seconds(30), relay_batch=500, relay_poll=milliseconds(50))
    async with running(counting_app("first", seen), busy) as system, running(counting_app("second", seen), busy):
        events: list[Event] = [Ticked(number=number) for number in range(EVENTS)]
        await record_many(system, events)
        await system.settled(timeout_seconds=60)
        outcomes = await system.sql.fetch("SELECT outcome, count(*) AS n FROM homing.deliveries GROUP BY 1")
        assert [(row["outcome"], row["n"]) for row in outcomes] == [("done", EVENTS)]
        assert set(seen) == {event.event_id for event in events}
        assert set(seen.values()) == {1}


async def test_rolled_back_event_is_never_delivered(settings: Settings) -> None:
    """What a transaction recorded and did not commit reaches nobody, while a later event does."""
    seen: Counter[UUID] = Counter()
    async with running(counting_app("test", seen), quick(settings)) as system:
        transaction = system.sql.transaction()
        await transaction.start()
        await record(system.sql, Ticked(number=1))
        await transaction.rollback()
        kept = Ticked(number=2)
        await system.record(kept)
        await system.settled()
        assert seen == Counter({kept.event_id: 1})
        assert await system.sql.fetchval("SELECT count(*) FROM homing.outbox_events") == 1


async def test_unknown_topics_in_front_hold_nobody_up(settings: Settings) -> None:
    """Five hundred events that nobody consumes are passed by, are shown, and flow once another process subscribes."""
    seen: Counter[UUID] = Counter()
    late: Counter[UUID] = Counter()
    async with running(counting_app("test", seen), quick(settings, relay_batch=50)) as system:
        await record_many(system, [Unheard(number=number) for number in range(500)])
        behind = Ticked(number=1)
        await system.record(behind)
        await until(lambda: seen[behind.event_id] == 1, what="the event behind them is handled")
        assert system.relay is not None
        await system.relay.unroutable.tick()
        assert system.relay.unroutable.topics == {"flow.unheard": 500}

        newer = Homing("newer")

        @newer.queue("late", concurrency=50).handler("hear", on=Unheard, at_least_once=True)
        async def hear(event: Unheard) -> None:
            late[event.event_id] += 1

        async with running(newer, quick(settings), relay=False):
            await system.settled()
            assert len(late) == 500
            assert set(late.values()) == {1}
        await system.relay.unroutable.tick()
        assert system.relay.unroutable.topics == {}


async def test_idle_relay_rests_between_polls(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing but unroutable events left, the relay asks once per poll, not more."""
    routed_at: list[float] = []
    fetch = Ledger.fetch

    async def counting_fetch(ledger: Ledger, statement: Statement, **values: object) -> list[Row]:
        if statement is ROUTE:
            routed_at.append(time.monotonic())
        return await fetch(ledger, statement, **values)

    monkeypatch.setattr(Ledger, "fetch", counting_fetch)
    app = counting_app("test", Counter())
    async with running(app, quick(settings, relay_poll=seconds(POLL_SECONDS)), worker=False) as system:
        await record_many(system, [Unheard(number=number) for number in range(500)])
        await until(lambda: len(routed_at) > 5, what="the relay settled down")
        start = len(routed_at)
        await until(lambda: len(routed_at) >= start + 12, what="twelve more polls")
        took = routed_at[start + 11] - routed_at[start]
        assert (
            took >= 9 * POLL_SECONDS * 0.9
        )  # of eleven pauses, one or two may be cut short by the listener's own probe


async def test_consumer_added_by_newer_code_gets_every_event_whichever_relay_routes(settings: Settings) -> None:
    """With an old relay {A} beside new code {A, B}, both consumers get each event recorded after B's subscription."""
    by_old: Counter[UUID] = Counter()
    by_new: Counter[UUID] = Counter()
    old = counting_app("old", by_old)
    new = counting_app("new", by_old)

    @new.queue("more").handler("added", on=Ticked, at_least_once=True)
    async def added(event: Ticked) -> None:
        by_new[event.event_id] += 1

    async with running(old, quick(settings)) as system:
        before = Ticked(number=0)
        await system.record(before)
        await system.settled()
        async with running(new, quick(settings), relay=False):  # the old relay routes all of them
            alone: list[Event] = [Ticked(number=number) for number in range(1, 50)]
            await system.record(*alone)
            await system.settled(timeout_seconds=20)
        async with running(new, quick(settings)):  # both do
            both: list[Event] = [Ticked(number=number) for number in range(50, 250)]
            for event in both:
                await system.record(event)
            await system.settled(timeout_seconds=20)
    after = {event.event_id for event in (*alone, *both)}
    assert set(by_new) == after
    assert set(by_old) == after | {before.event_id}
    assert set((by_old + by_new).values()) <= {1, 2}
    assert set(by_old.values()) == set(by_new.values()) == {1}


async def test_notification_wakes_the_relay(settings: Settings) -> None:
    """With a poll of a minute, only the notification of the commit can have woken the relay in time."""
    seen: Counter[UUID] = Counter()
    async with running(counting_app("test", seen), quick(settings, relay_poll=seconds(60))) as system:
        assert system.relay is not None
        relay = system.relay
        await until(lambda: relay.listener.hears, what="the listener hears itself")
        await system.record(Ticked(number=1))
        await until(lambda: len(seen) == 1, 5, "the event is handled")


async def test_swallowed_notifications_leave_polling(settings: Settings) -> None:
    """A listener behind something that swallows notifications knows it is deaf, and events flow by polling."""
    seen: Counter[UUID] = Counter()
    elsewhere = settings.asyncpg_dsn.rpartition("/")[0] + "/postgres"  # notifications stay within a database
    deaf = quick(settings, listen_database_url=elsewhere, relay_poll=milliseconds(50))
    async with running(counting_app("test", seen), deaf) as system:
        assert system.relay is not None
        relay = system.relay
        connection = await asyncpg.connect(elsewhere)
        try:

            async def listening() -> bool:
                return bool(
                    await connection.fetchval(
                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'homing listen' AND datname = 'postgres'"
                    )
                )

            await until(listening, what="the listener is connected")
        finally:
            await connection.close()
        await system.record(Ticked(number=1))
        await until(lambda: len(seen) == 1, what="the event is handled")
        assert relay.listener.hears is False


async def test_a_renamed_consumer_gets_each_event_once(settings: Settings) -> None:
    """The route under its former name is still there and gets nothing new; what was opened under it settles under it."""
    seen: Counter[UUID] = Counter()
    old = counting_app("old", seen)
    async with running(old, quick(settings), worker=False) as system:
        before = Ticked(number=1)
        await system.record(before)

        async def routed() -> bool:
            return bool(await system.deliveries())

        await until(routed, 5, "the event is routed under the former name")
    renamed = Homing("new")

    @renamed.queue("ticks").handler("tally", on=Ticked, at_least_once=True, aliases=["ticks.count"])
    async def tally(event: Ticked) -> None:
        seen[event.event_id] += 1

    async with running(renamed, quick(settings)) as system:
        after = Ticked(number=2)
        await system.record(after)
        await system.settled()
        rows = await system.sql.fetch("SELECT event_id, consumer, outcome FROM homing.deliveries")
        assert {(row["event_id"], row["consumer"], row["outcome"]) for row in rows} == {
            (before.event_id, "ticks.count", "done"),
            (after.event_id, "ticks.tally", "done"),
        }
    assert seen == {before.event_id: 1, after.event_id: 1}
