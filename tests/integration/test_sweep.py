"""The sweep: what it does with the job of an unsettled delivery, one finding after the other."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.embedded import EmbeddedValkey
from homing.ids import DeliveryKey, JobId, new_token
from homing.ledger.look import VANISHED_LIMIT
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest
from homing.queue.redis.keys import QueueKeys
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "work"
CONSUMER = "work.do"
KEEP = KeepRule()


class Asked(Event, topic="sweep.asked", unrouted=True):
    number: int = 0


def app_of(seen: list[int], deadline: timedelta | None = None) -> Homing:
    """An app with one handler."""
    app = Homing("test")

    @app.queue(QUEUE).handler("do", on=Asked, at_least_once=True, deadline=deadline)
    async def do(event: Asked) -> None:
        seen.append(event.number)

    return app


def job_id(event: Event) -> JobId:
    return DeliveryKey(event.event_id, CONSUMER, 1).job_id


async def dispatched(system: System, event: Event) -> None:
    """Record an event, and wait until its job waits in the engine."""
    await system.record(event)

    async def waiting() -> bool:
        return (await system.engine.counts(QUEUE)).waiting == 1

    await until(waiting, what="the job waits in the engine")


async def claimed(system: System) -> ClaimedJob:
    job = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
    assert isinstance(job, ClaimedJob)
    return job


async def look_now(system: System) -> None:
    """Make every unsettled delivery due, as time alone would."""
    await system.sql.execute("UPDATE homing.deliveries SET check_at = now() WHERE settled_at IS NULL")


def keys_of(settings: Settings) -> QueueKeys:
    return QueueKeys(settings.prefix or "", QUEUE)


async def run_to_the_end(settings: Settings, seen: list[int], *, done: int = 1) -> None:
    """Let a worker run what the sweep made claimable."""
    async with running(app_of(seen), quick(settings)) as system:
        await system.settled()
    assert seen == [0] * done


async def test_gone_job_is_dispatched_again(settings: Settings) -> None:
    """A job that vanished without a trace has a successor with the same id."""
    seen: list[int] = []
    async with running(app_of(seen), quick(settings), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        assert await system.engine.remove(QUEUE, job_id(event))
        await look_now(system)

        async def back() -> bool:
            return (await system.engine.inspect(QUEUE, [job_id(event)]))[0].name == "do"

        await until(back, what="the job is back")
        assert system.relay is not None
        sweep = system.relay.sweep
        await until(lambda: sweep.redispatched > 0, what="it is counted, once all that was gone is back")
        assert sweep.redispatched == 1
    await run_to_the_end(settings, seen)


async def test_living_job_is_left_alone(settings: Settings) -> None:
    """A job that waits or runs is not added a second time, and is looked at again only much later."""
    async with running(app_of([]), quick(settings), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        await look_now(system)

        async def looked() -> bool:
            return bool(await system.sql.fetchval("SELECT check_at > now() + interval '50 min' FROM homing.deliveries"))

        await until(looked, what="the look came by")
        assert (await system.engine.counts(QUEUE)).waiting == 1
        assert system.relay is not None
        assert system.relay.sweep.redispatched == 0


async def test_ghost_is_removed_and_dispatched_again(settings: Settings) -> None:
    """A hash without a job, as a claim of a lost job leaves it, does not stand in the way of a new job."""
    seen: list[int] = []
    async with running(app_of(seen), quick(settings), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        with Redis.from_url(settings.redis_dsn) as client:
            keys = keys_of(settings)
            client.delete(keys.part(job_id(event)))
            client.delete(keys.part("wait"))
            client.hset(keys.part(job_id(event)), mapping={"processedOn": 1, "ats": 1})
        await look_now(system)

        async def back() -> bool:
            return (await system.engine.inspect(QUEUE, [job_id(event)]))[0].name == "do"

        await until(back, what="the job is back")
    await run_to_the_end(settings, seen)


@pytest.mark.parametrize("mark", [None, "done"], ids=["a stranger's", "ours"])
async def test_completed_job_of_an_unsettled_delivery_runs_again(settings: Settings, mark: str | None) -> None:
    """Completed in the engine is no settled row: without our mark a stranger swallowed it, with it the ledger lost the settle."""
    seen: list[int] = []
    async with running(app_of(seen), quick(settings), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        await system.engine.complete(await claimed(system), "null", mark=mark, keep=KEEP, claim_next=None)
        await look_now(system)

        async def back() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 1

        await until(back, what="the job waits again")
    await run_to_the_end(settings, seen)


async def test_lost_settle_is_done_again(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """A delivery that was done and whose settle the database forgot runs once more and is done."""
    seen: list[int] = []
    async with running(app_of(seen), quick(settings)) as system:
        event = Asked()
        await system.record(event)
        await system.settled()

        async def finished() -> bool:
            return (await system.engine.inspect(QUEUE, [job_id(event)]))[0].mark == "done"

        await until(finished, what="the job carries our mark")
        await system.sql.execute("UPDATE homing.deliveries SET outcome = NULL, settled_at = NULL, check_at = now()")
        await until(lambda: len(seen) == 2, what="it ran again")
        await system.settled()
        assert "PostgreSQL lost a commit" in caplog.text
        assert system.relay is not None
        assert system.relay.sweep.findings["completed by us, not settled"] == 1


async def test_job_in_no_list_is_dispatched_again_once_it_is_old(
    settings: Settings,
) -> None:
    """A job whose fields say it lives and that no list has is found by the audit, a young one or one that waits is left alone."""
    async with running(app_of([]), quick(settings, look=seconds(60)), worker=False) as system:
        young, old, waits = Asked(number=1), Asked(number=2), Asked(number=3)
        await system.record(young, old, waits)

        async def all_wait() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 3

        await until(all_wait, what="the jobs wait")
        with Redis.from_url(settings.redis_dsn) as client:
            for event in (young, old):
                client.lrem(keys_of(settings).part("wait"), 0, job_id(event))
        await system.sql.execute(
            "UPDATE homing.deliveries SET opened_at = now() - interval '25 h' WHERE event_id <> $1", young.event_id
        )
        await look_now(system)
        assert system.relay is not None
        await system.relay.sweep.tick()
        listed = await system.engine.listed(QUEUE, [job_id(event) for event in (young, old, waits)])
        assert listed == {job_id(old), job_id(waits)}
        assert system.relay.sweep.findings == {"alive": 2, "alive in no list": 1}


@pytest.mark.parametrize(("mark", "kind"), [(None, "foreign"), ("dead:17", "failed")], ids=["a stranger's", "ours"])
async def test_failed_job_of_an_unsettled_delivery_is_buried(settings: Settings, mark: str | None, kind: str) -> None:
    """Failed in the engine without a letter: a stranger gave up, or the ledger lost the bury; either way a letter tells why."""
    async with running(app_of([]), quick(settings), worker=False) as system:
        event = Asked(number=5)
        await dispatched(system, event)
        await system.engine.fail(
            await claimed(system), "no such order", stack="at the till", mark=mark, keep=KEEP, claim_next=None
        )
        await look_now(system)
        await system.settled()
        (letter,) = await system.letters()
        assert letter["kind"] == kind
        assert "no such order" in letter["error"]
        assert "at the till" in letter["error"]
        assert letter["attempts_made"] == 1
        assert '"number": 5' in letter["data"]
        assert await system.deliveries() == {CONSUMER: "dead"}


async def test_job_that_keeps_vanishing_is_buried(settings: Settings) -> None:
    """A job that is gone at every look within one epoch ends as a dead letter, not as an endless loop."""
    async with running(app_of([]), quick(settings, look=seconds(60)), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        assert system.relay is not None
        await until(lambda: system.relay is not None and system.relay.watch.epochs, what="the queue is verified")
        for times in range(1, VANISHED_LIMIT + 1):
            assert await system.letters() == []
            assert await system.engine.remove(QUEUE, job_id(event))
            await look_now(system)
            await system.relay.sweep.tick()
            assert await system.sql.fetchval("SELECT vanished FROM homing.deliveries") == times
        (letter,) = await system.letters()
        assert letter["kind"] == "vanished"
        assert await system.deliveries() == {CONSUMER: "dead"}


async def test_jobs_that_vanish_in_different_epochs_are_not_counted_together(settings: Settings) -> None:
    """A loss of the engine's data begins the count anew: five losses are no vanishing job."""
    async with running(app_of([]), quick(settings, look=seconds(60)), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        assert system.relay is not None
        await system.sql.execute("UPDATE homing.deliveries SET vanished = $1", VANISHED_LIMIT - 1)
        with Redis.from_url(settings.redis_dsn) as client:
            client.delete(*client.keys(f"{settings.prefix}:*"))
        await system.relay.watch.tick()
        await system.relay.sweep.tick()
        assert await system.letters() == []
        assert await system.sql.fetchval("SELECT vanished FROM homing.deliveries") == 0
        assert (await system.engine.counts(QUEUE)).waiting == 1


async def test_gone_job_past_its_deadline_is_buried_as_expired(settings: Settings) -> None:
    """The deadline of the delivery holds for the sweep too: it dispatches nothing that may no longer start."""
    async with running(app_of([], deadline=seconds(60)), quick(settings), worker=False) as system:
        event = Asked()
        await dispatched(system, event)
        assert await system.engine.remove(QUEUE, job_id(event))
        await system.sql.execute("UPDATE homing.deliveries SET opened_at = now() - interval '61 s', check_at = now()")
        await system.settled()
        (letter,) = await system.letters()
        assert letter["kind"] == "expired"
        assert (await system.engine.counts(QUEUE)).waiting == 0


async def test_row_that_a_handler_holds_is_skipped_without_waiting(settings: Settings) -> None:
    """The sweep returns while a handler's transaction holds a row, leaves that row alone, and repairs its neighbours."""
    async with running(app_of([]), quick(settings, look=seconds(60)), worker=False) as system:
        held, free = Asked(number=1), Asked(number=2)
        await system.record(held, free)

        async def both() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 2

        await until(both, what="both jobs wait")
        for event in (held, free):
            assert await system.engine.remove(QUEUE, job_id(event))
        await look_now(system)
        handler = await asyncpg.connect(settings.asyncpg_dsn)
        try:
            async with handler.transaction():
                await handler.execute(
                    "UPDATE homing.deliveries SET outcome = 'done', settled_at = now() WHERE event_id = $1",
                    held.event_id,
                )
                assert system.relay is not None
                async with asyncio.timeout(8):  # the ledger's own lock timeout is 10 s
                    await system.relay.sweep.tick()
                traces = await system.engine.inspect(QUEUE, [job_id(held), job_id(free)])
                assert [trace.exists for trace in traces] == [False, True]
        finally:
            await handler.close()
        assert (
            await system.sql.fetchval("SELECT outcome FROM homing.deliveries WHERE event_id = $1", held.event_id)
            == "done"
        )


async def test_page_of_held_rows_does_not_make_the_sweep_spin(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full page of due deliveries that handlers hold is no progress: the sweep rests instead of asking again at once."""
    monkeypatch.setattr("homing.relay.sweep.PAGE", 3)
    async with running(app_of([]), quick(settings, look=seconds(60)), worker=False) as system:
        events = [Asked(number=number) for number in range(3)]
        await system.record(*events)

        async def all_there() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 3

        await until(all_there, what="the jobs wait")
        await look_now(system)
        handler = await asyncpg.connect(settings.asyncpg_dsn)
        try:
            async with handler.transaction():
                await handler.execute("SELECT FROM homing.deliveries FOR UPDATE")
                assert system.relay is not None
                assert (await system.relay.sweep.tick()).value == "rest"
            assert (await system.relay.sweep.tick()).value == "again"
        finally:
            await handler.close()


async def test_queue_that_errs_does_not_hold_up_the_others(
    disposable_settings: Settings, disposable_valkey: EmbeddedValkey
) -> None:
    """When one queue's keys are broken, the deliveries of the queues beside it are still repaired."""
    app = Homing("test")

    @app.queue("bad").handler("do", on=Asked, at_least_once=True)
    async def bad(event: Asked) -> None: ...

    @app.queue("good").handler("do", on=Asked, at_least_once=True)
    async def good(event: Asked) -> None: ...

    settings = quick(disposable_settings, look=milliseconds(100))
    async with running(app, settings, worker=False) as system:
        event = Asked()
        await system.record(event)

        async def both() -> bool:
            return [(await system.engine.counts(name)).waiting for name in ("bad", "good")] == [1, 1]

        await until(both, what="both jobs wait")
        ids = {name: DeliveryKey(event.event_id, f"{name}.do", 1).job_id for name in ("bad", "good")}
        with Redis.from_url(disposable_valkey.url()) as client:
            client.set(QueueKeys("own", "bad").part(ids["bad"]), "no hash")
            assert await system.engine.remove("good", ids["good"])
            await look_now(system)

            async def repaired() -> bool:
                return (await system.engine.inspect("good", [ids["good"]]))[0].exists

            await until(repaired, what="the good queue's job is back")


async def test_a_relay_that_stops_leaves_the_look_to_the_next(settings: Settings) -> None:
    """No queue keeps a sweeper that is gone, so that a loss around a deploy is repaired as soon as any other."""
    app = Homing("test")

    @app.queue("mail").handler("send", on=Asked, at_least_once=True)
    async def send(event: Asked) -> None:
        """Nothing to do."""

    async with running(app, quick(settings), worker=False) as system:

        async def swept() -> bool:
            return bool(await system.sql.fetchval("SELECT sweeper IS NOT NULL FROM homing.queues WHERE queue = 'mail'"))

        await until(swept, 5, "the relay has taken the queue")
        assert system.relay is not None
        await system.relay.stop()
        assert not await swept()
