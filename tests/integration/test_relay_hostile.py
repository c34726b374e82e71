"""Rows that anybody may have written: they are parked or buried with their error, and hold up nothing beside them."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.errors import UnknownId
from homing.ids import JobId
from homing.ledger.actions import Person
from homing.ledger.look import VANISHED_LIMIT
from homing.operations.events import EventState, list_events, release
from homing.processes.relaying import RelayLoops
from homing.queue.job import JobTrace, NewJob
from homing.queue.port import AddResult, Refused
from homing.queue.redis import RedisEngine
from tests.system import quick, running
from tests.waiting import until

QUEUE = "work"


class Asked(Event, topic="hostile.asked", unrouted=True):
    number: int = 0


def app_of(seen: list[int]) -> Homing:
    app = Homing("test")

    @app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        seen.append(event.number)

    return app


async def insert(sql: asyncpg.Connection, *, payload: str, headers: str = "{}", created_at: str = "2026-01-01") -> UUID:
    """An event as some other program writes it."""
    event_id = uuid4()
    await sql.execute(
        "INSERT INTO homing.outbox_events (id, topic, payload, headers, created_at, available_at)"
        " VALUES ($1, 'hostile.asked', $2::text::jsonb, $3::text::jsonb, $4::text::timestamptz, '2000-01-01')",
        event_id,
        payload,
        headers,
        created_at,
    )
    return event_id


async def test_an_event_without_a_job_is_parked_until_it_is_mended_and_released(settings: Settings) -> None:
    """What is no object is parked with its error while others flow; released unmended it is parked again, mended it arrives."""
    seen: list[int] = []
    async with running(app_of(seen), quick(settings, relay_poll=milliseconds(50))) as system:
        bad = await insert(system.sql, payload="[1]")
        worse = await insert(system.sql, payload='{"number": 2}', headers='"text"')
        await system.record(Asked(number=1))
        await until(lambda: seen == [1], what="the event beside them arrives")

        async def parked() -> dict[UUID, str | None]:
            page = await list_events(system.ledger, state=EventState.PARKED, most=10)
            return {event.event_id: event.parked_error for event in page.events}

        assert await parked() == {
            bad: "its payload is no JSON object: array",
            worse: "its headers are no JSON object: string",
        }
        with pytest.raises(UnknownId, match="nothing was released"):
            await release(system.ledger, [bad, uuid4()], Person("test@here"))
        await system.sql.execute("UPDATE homing.outbox_events SET headers = '{}' WHERE id = $1", worse)
        assert await release(system.ledger, [bad, worse], Person("test@here", "mended")) == 2
        await until(lambda: seen == [1, 2], what="the mended event arrives")

        async def parked_again() -> bool:
            return set(await parked()) == {bad}

        await until(parked_again, what="the other is parked again")
        action = await system.sql.fetchrow("SELECT * FROM homing.operator_actions")
        assert action is not None
        assert (action["actor"], action["action"], action["affected"], action["reason"]) == (
            "test@here",
            "release",
            2,
            "mended",
        )


async def test_a_time_that_no_calendar_has_holds_up_nothing(settings: Settings) -> None:
    """PostgreSQL knows times that Python does not: such events are delivered like any other, the first time and again."""
    times = ("infinity", "-infinity", "4000-01-01 BC", "290000-01-01")
    async with running(app_of([]), quick(settings, look=seconds(60)), worker=False) as system:
        events = [await insert(system.sql, payload="{}", created_at=when) for when in times]

        async def all_there() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == len(times)

        await until(all_there, what="their jobs wait")
        for event_id in events:
            assert await system.engine.remove(QUEUE, JobId(f"{event_id}.1.work.do"))
        await system.sql.execute("UPDATE homing.deliveries SET check_at = now()")
        assert system.relay is not None
        await system.relay.sweep.tick()
        assert await all_there()


async def test_a_delivery_that_can_never_be_handed_over_is_dead_and_shown(settings: Settings) -> None:
    """No job can be made, or no engine would take it: letters tell why at once, instead of trying for ever; the one beside them arrives."""
    spoiled = {
        "options": ("options = '[]'", "list"),
        "attempts": ("options = '{\"attempts\": 0}'", "at least one attempt"),
        "backoff": ('options = \'{"backoff": {"kind": 7}}\'', "delaySeconds"),
        "name": ("consumer = repeat('c', 600)", "1 to 500 characters"),
    }
    app = app_of([])
    for name in spoiled:
        app.queue(name).consumer("do", on=Asked, foreign=True)
    async with running(app, quick(settings), worker=False) as system:
        for name, (change, _) in spoiled.items():
            await system.sql.execute(f"UPDATE homing.subscriptions SET {change} WHERE queue = $1", name)  # noqa: S608 - our words
        await system.record(Asked(number=3))

        async def all_dead() -> dict[str, dict[str, Any]] | None:
            letters = {letter["queue"]: letter for letter in await system.letters()}
            return letters if len(letters) == len(spoiled) else None

        letters = await until(all_dead, what="each has its letter")
        for name, (_, text) in spoiled.items():
            assert letters[name]["kind"] == "failed"
            assert text in letters[name]["error"]
            data = json.loads(letters[name]["data"])
            assert data.get("payload", data) == {"number": 3}
        assert (await system.engine.counts(QUEUE)).waiting == 1


class RefusingEngine(RedisEngine):
    """Refuses every job for the present, and notes when transactions of this process were open while it was asked."""

    def __init__(self, settings: Settings, watcher: asyncpg.Connection) -> None:
        super().__init__(settings.redis_dsn, prefix=str(settings.prefix))
        self.refuses = True
        self.watcher = watcher
        self.open_transactions: list[str | None] = []

    async def _note(self) -> None:
        found = await self.watcher.fetchval(
            "SELECT string_agg(query, ' | ') FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'test' AND state LIKE 'idle in transaction%'"
        )
        self.open_transactions.append(found)

    async def add(self, queue: str, jobs: Sequence[NewJob]) -> list[AddResult]:
        await self._note()
        if self.refuses:
            return [Refused("not now", for_good=False)] * len(jobs)
        return await super().add(queue, jobs)

    async def inspect(self, queue: str, ids: Sequence[JobId]) -> list[JobTrace]:
        await self._note()
        return await super().inspect(queue, ids)


async def test_what_the_engine_refuses_for_now_waits_and_is_never_buried(settings: Settings) -> None:
    """Odd errors of the engine cost a growing rest and no letter, however often; afterwards all arrives. No transaction is open meanwhile."""
    watcher = await asyncpg.connect(settings.asyncpg_dsn)
    engine = RefusingEngine(settings, watcher)
    async with running(app_of([]), quick(settings), worker=False, relay=False, engine=engine) as system:
        relay = RelayLoops(system.app, system.settings, ledger=system.ledger, engine=engine)
        await relay.watch.tick()
        await system.record(Asked(number=1))
        await relay.relay.tick()
        assert relay.watch.epochs == {}
        for _ in range(VANISHED_LIMIT + 1):
            relay.watch.trust(QUEUE)  # as if its rest were over
            await relay.watch.tick()
            await relay.sweep.tick()
            assert relay.watch.epochs == {}
        assert await system.letters() == []
        assert await system.sql.fetchval("SELECT vanished FROM homing.deliveries") == 0
        engine.refuses = False
        relay.watch.trust(QUEUE)
        await relay.watch.tick()
        await relay.sweep.tick()
        assert (await engine.counts(QUEUE)).waiting == 1
        assert engine.open_transactions == [None] * (1 + 2 * (VANISHED_LIMIT + 2))
    await watcher.close()
