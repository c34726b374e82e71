"""What breaks around a run: stale generations, jobs that come back, lost leases, deaths that were none, flushes without end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, PermanentError, Retry, Transaction, backoff, record
from homing.config.settings import Settings
from homing.deadletters import DeadLetters, Death, report_text
from homing.deadletters.redrive import Redrive
from homing.durations import hours, milliseconds, seconds
from homing.embedded import EmbeddedValkey
from homing.ids import DeliveryKey, JobId
from homing.ledger.actions import Person
from homing.ledger.statements import PAYLOADS
from homing.queue.redis.keys import QueueKeys
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

QUEUE = "work"
ONCE, LEAST = f"{QUEUE}.once", f"{QUEUE}.least"
ADD_EFFECT = text("INSERT INTO effects VALUES (:event_id)")
Handle = Callable[[Event, Job], Awaitable[object]]


class Asked(Event, topic="breaks.asked", unrouted=True):
    number: int = 0


class Followed(Event, topic="breaks.followed", unrouted=True):
    number: int = 0


class Hand:
    """Holds handlers inside their run, and lets each go with the next of `fates`, or well when there is none left."""

    def __init__(self, *fates: Exception | None) -> None:
        self._fates = list(fates)
        self.entered = 0
        self.may_leave = asyncio.Event()

    async def handle(self) -> int:
        self.entered += 1
        fate = self._fates.pop(0) if self._fates else None
        run = self.entered
        await self.may_leave.wait()
        if fate is not None:
            raise fate
        return run


def least_app(hand: Hand, **options: Any) -> Homing:
    """An app with one handler that runs at least once."""
    app = Homing("test")

    @app.queue(QUEUE).handler("least", on=Asked, at_least_once=True, **options)
    async def least(event: Asked) -> int:
        return await hand.handle()

    return app


def job_id(event: Event, consumer: str = LEAST, generation: int = 1) -> JobId:
    return DeliveryKey(event.event_id, consumer, generation).job_id


def death(event: Event) -> Death:
    """What another run of the delivery would write down."""
    return Death(
        event_id=event.event_id,
        consumer=LEAST,
        generation=1,
        queue=QUEUE,
        job_name="least",
        job_id=job_id(event),
        topic="breaks.asked",
        kind="failed",
        data="{}",
        error=report_text("Other", "another run gave up"),
        attempts_made=3,
    )


async def entered(system: System, hand: Hand) -> Event:
    """Record an event, and wait until its handler is inside."""
    event = Asked()
    await system.record(event)
    await until(lambda: hand.entered == 1, what="the handler runs")
    return event


async def test_stale_run_that_gives_up_after_a_redrive_buries_nothing(settings: Settings) -> None:
    """The run of generation 1 fails for good while generation 2 is open: its job ends as superseded, and generation 2 is run."""
    hand = Hand(PermanentError("stale"))
    async with running(least_app(hand), quick(settings)) as system:
        event = await entered(system, hand)
        letter = await DeadLetters(system.ledger).bury(death(event))
        assert letter is not None
        await Redrive(system.ledger).redrive(letter, Person("alice", "the cause is gone"))
        hand.may_leave.set()
        await system.settled()

        async def superseded() -> bool:
            (trace,) = await system.engine.inspect(QUEUE, [job_id(event)])
            return trace.finished and trace.failed_reason is None and trace.mark is None

        await until(superseded, what="the stale job ended without a verdict")
        assert hand.entered == 2
        row = await system.sql.fetchrow("SELECT outcome, generation FROM homing.deliveries")
        assert row is not None
        assert tuple(row) == ("done", 2)
        assert [one["closed_as"] for one in await system.letters()] == ["redriven"]


async def test_late_success_closes_the_letter_of_another_run(settings: Settings) -> None:
    """The effect happened after all: dead becomes done, and nobody is asked to look at a letter that means nothing."""
    hand = Hand()
    async with running(least_app(hand), quick(settings)) as system:
        event = await entered(system, hand)
        assert await DeadLetters(system.ledger).bury(death(event)) is not None
        hand.may_leave.set()

        async def closed() -> bool:
            return [one["closed_as"] for one in await system.letters()] == ["late success"]

        await until(closed, what="the letter is closed")
        assert await system.deliveries() == {LEAST: "done"}


async def test_run_without_its_lease_buries_nothing(settings: Settings) -> None:
    """A run whose lease ran out and who fails for good says nothing: the job comes back, and its next run decides."""
    hand = Hand(PermanentError("a zombie"))
    brief = quick(settings, beat=seconds(1), rescue=milliseconds(200))
    async with running(least_app(hand), brief) as system:
        event = await entered(system, hand)
        with Redis.from_url(settings.redis_dsn) as client:
            client.delete(QueueKeys(settings.prefix or "", QUEUE).lock(job_id(event)))
        hand.may_leave.set()
        await system.settled()
        assert hand.entered == 2
        assert await system.letters() == []
        assert await system.deliveries() == {LEAST: "done"}


async def test_job_that_is_added_again_by_a_slow_relay_runs_nothing(settings: Settings) -> None:
    """Done and pruned in the engine, then added once more, and even given up by BullMQ: it ends with the result that was kept."""
    runs: list[str] = []
    app = Homing("test")
    work = app.queue(QUEUE)

    @work.handler("once", on=Asked)
    async def once(event: Asked, tx: Transaction[AsyncSession]) -> str:
        await tx.execute(ADD_EFFECT, {"event_id": event.event_id})
        runs.append(ONCE)
        return "kept"

    @work.handler("least", on=Asked, at_least_once=True)
    async def least(event: Asked) -> str:
        runs.append(LEAST)
        return "kept"

    event = Asked()
    ids = [job_id(event, consumer) for consumer in (ONCE, LEAST)]
    keys = QueueKeys(settings.prefix or "", QUEUE)
    with_sessions(app, settings)
    async with running(app, quick(settings)) as system:
        await system.sql.execute("CREATE TABLE effects (event_id uuid)")
        await system.record(event)
        await system.settled()

        async def ended() -> bool:
            return all(trace.finished for trace in await system.engine.inspect(QUEUE, ids))

        await until(ended, what="both jobs have ended")
    async with running(app, quick(settings), worker=False) as system:
        for one in ids:
            assert await system.engine.remove(QUEUE, one)
        slow = await system.ledger.fetch(PAYLOADS, event_ids=[event.event_id] * 2, consumers=[ONCE, LEAST])
        assert system.relay is not None
        assert len(await system.relay.dispatcher.dispatch(slow)) == 2
        with Redis.from_url(settings.redis_dsn) as client:
            for one in ids:
                client.hset(keys.part(one), mapping={"defa": "job stalled more than allowable limit", "stc": 9})
    async with running(app, quick(settings)) as system:
        await until(ended, what="both jobs have ended again")
        assert [trace.mark for trace in await system.engine.inspect(QUEUE, ids)] == ["done", "done"]
        assert sorted(runs) == [LEAST, ONCE]
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == 1
        assert await system.letters() == []
    with Redis.from_url(settings.redis_dsn, decode_responses=True) as client:
        assert [client.hget(keys.part(one), "returnvalue") for one in ids] == ['"kept"', '"kept"']


async def test_deadline_outlives_every_flush(disposable_settings: Settings, disposable_valkey: EmbeddedValkey) -> None:
    """A flush gives a job its attempts back, and never its time: past its deadline the delivery is dead, not run again."""
    hand = Hand(*(RuntimeError("again") for _ in range(9)))
    hand.may_leave.set()
    patient = Retry(attempts=2, backoff=backoff.fixed(hours(1)))
    app = least_app(hand, retry=patient, deadline=hours(2))
    async with running(app, quick(disposable_settings)) as system:
        await system.record(Asked())
        assert system.relay is not None
        for flushes in (1, 2):
            await until(lambda runs=flushes: hand.entered == runs, what=f"run {flushes}")  # type: ignore[misc]  # bound now

            async def waits() -> bool:
                return (await system.engine.counts(QUEUE)).delayed == 1

            await until(waits, what="the failed job waits for its next attempt")
            if flushes == 2:
                await system.sql.execute("UPDATE homing.deliveries SET opened_at = opened_at - interval '3 hours'")
            flush(disposable_valkey)
            await system.relay.watch.tick()
        await system.settled()
        (letter,) = await system.letters()
        assert letter["kind"] == "expired"
        assert hand.entered == 2


async def test_what_a_handler_records_survives_the_flush_that_follows(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """Work that must not be lost is an event in the handler's transaction: it arrives once, wherever Redis forgets."""
    app = Homing("test")
    work = app.queue(QUEUE)

    @work.handler("once", on=Asked)
    async def once(event: Asked, tx: Transaction[AsyncSession]) -> None:
        await record(tx, Followed(number=event.number))

    @work.handler("follow", on=Followed)
    async def follow(event: Followed, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD_EFFECT, {"event_id": event.event_id})

    with_sessions(app, disposable_settings)
    async with running(app, quick(disposable_settings)) as system:
        await system.sql.execute("CREATE TABLE effects (event_id uuid)")
        await system.record(Asked(), Asked(), Asked())

        async def recorded() -> bool:
            return bool(
                await system.sql.fetchval("SELECT count(*) FROM homing.outbox_events WHERE topic = 'breaks.followed'")
            )

        await until(recorded, what="a handler committed its event")
        flush(disposable_valkey)
        await system.settled(20)
        per_event = await system.sql.fetch("SELECT count(*) AS n FROM effects GROUP BY event_id")
        assert [row["n"] for row in per_event] == [1, 1, 1]


def flush(server: EmbeddedValkey) -> None:
    with Redis.from_url(server.url()) as client:
        client.flushall()
