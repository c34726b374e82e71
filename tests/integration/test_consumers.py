"""Consumers in other systems: settled from what the engine keeps, or when they were handed over; never run here."""

import json
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import seconds
from homing.ids import DeliveryKey, JobId, new_token
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest
from homing.queue.redis.keys import QueueKeys
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "labels"
KEEP = KeepRule()


class Placed(Event, topic="others.placed", unrouted=True):
    number: int = 0


def app_of(*, foreign: bool) -> Homing:
    app = Homing("test")
    app.queue(QUEUE).consumer("print", on=Placed, foreign=foreign, elsewhere=not foreign)
    return app


@pytest.fixture
async def foreign(settings: Settings) -> AsyncIterator[System]:
    """A system whose worker has nothing to run, and whose look comes when it is told to."""
    async with running(app_of(foreign=True), quick(settings, look=seconds(60))) as system:
        yield system


def job_id(event: Event) -> JobId:
    return DeliveryKey(event.event_id, "labels.print", 1).job_id


async def handed_over(system: System, *events: Event) -> None:
    """Record events, and wait until their jobs wait for the other system."""
    await system.record(*events)

    async def waiting() -> bool:
        return (await system.engine.counts(QUEUE)).waiting == len(events)

    await until(waiting, what="the jobs wait")


async def taken(system: System) -> ClaimedJob:
    """The other system takes the next job."""
    job = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
    assert isinstance(job, ClaimedJob)
    return job


async def look(system: System) -> None:
    """Look at everything now."""
    await system.sql.execute("UPDATE homing.deliveries SET check_at = now() WHERE settled_at IS NULL")
    assert system.relay is not None
    await until(lambda: system.relay is not None and system.relay.watch.epochs, what="the queue is verified")
    await system.relay.sweep.tick()


async def test_what_a_foreign_worker_completed_is_done(foreign: System) -> None:
    """Completed jobs are settled with what the worker returned, where that is JSON that can be kept; waiting ones are left alone."""
    results = ['{"label":"A7"}', "null", "no JSON", '"\\u0000"', json.dumps("x" * 70_000)]
    await handed_over(foreign, *(Placed(number=number) for number in range(len(results) + 1)))
    for result in results:
        await foreign.engine.complete(await taken(foreign), result, mark=None, keep=KEEP, claim_next=None)
    await look(foreign)
    rows = await foreign.sql.fetch("SELECT outcome, result FROM homing.deliveries")
    assert Counter(row["outcome"] for row in rows) == {"done": len(results), None: 1}
    assert [json.loads(row["result"]) for row in rows if row["result"] is not None] == [{"label": "A7"}]
    assert (await foreign.engine.counts(QUEUE)).completed == len(results)
    assert foreign.worker is not None
    assert [loop.name for loop in foreign.worker.loops if loop.name.startswith("rescue")] == []


async def test_what_a_foreign_worker_gave_up_is_a_letter_with_its_evidence(foreign: System) -> None:
    """Reason, stack and attempts come from the job as Node wrote it."""
    await handed_over(foreign, Placed(number=5))
    job = await taken(foreign)
    await foreign.engine.fail(job, "no paper", stack="at print", mark=None, keep=KEEP, claim_next=None)
    with Redis.from_url(foreign.settings.redis_dsn) as client:
        client.hset(QueueKeys(foreign.settings.prefix or "", QUEUE).part(job.lease.job_id), "atm", 3)
    await look(foreign)
    (letter,) = await foreign.letters()
    assert (letter["kind"], letter["attempts_made"]) == ("foreign", 3)
    assert json.loads(letter["error"]) | {"frame": ""} == {
        "class": "FailedInEngine",
        "text": "no paper",
        "stack": "at print",
        "frame": "",
    }
    assert json.loads(letter["data"])["payload"] == {"number": 5}


async def test_a_foreign_job_that_vanished_is_not_given_out_again(foreign: System) -> None:
    """Its worker may have done the work and let the job go: once gone within one epoch, it is a person's."""
    event = Placed()
    await handed_over(foreign, event)
    assert await foreign.engine.remove(QUEUE, job_id(event))
    await look(foreign)
    (letter,) = await foreign.letters()
    assert letter["kind"] == "vanished"
    assert (await foreign.engine.counts(QUEUE)).waiting == 0


async def test_what_is_elsewhere_is_done_when_it_was_handed_over(settings: Settings) -> None:
    """As soon as the engine has the job the delivery is settled; what becomes of the job is not asked any more."""
    async with running(app_of(foreign=False), quick(settings, look=seconds(60))) as system:
        await handed_over(system, Placed(number=1))
        await system.settled()
        assert await system.deliveries() == {"labels.print": "done"}
        await system.sql.execute("UPDATE homing.deliveries SET outcome = NULL, settled_at = NULL")
        await look(system)  # as after a settle that failed: the job is there, so it was handed over
        assert await system.unsettled() == 0
        assert (await system.engine.counts(QUEUE)).waiting == 1


async def test_what_another_topic_says_of_a_consumer_counts_for_its_events_alone(settings: Settings) -> None:
    """A name that once meant another system, under another topic, settles nothing of ours: swallowed by a stranger, it is dispatched again."""
    app = Homing("test")

    @app.queue(QUEUE).handler("print", on=Placed, at_least_once=True)
    async def label(event: Placed) -> None: ...

    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        await system.sql.execute(
            "INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode)"
            " VALUES ('a.former.topic', 'labels.print', 'labels', 'print', 'foreign')"
        )
        await handed_over(system, Placed())
        await system.engine.complete(await taken(system), "null", mark=None, keep=KEEP, claim_next=None)
        await look(system)
        assert await system.deliveries() == {"labels.print": None}
        assert (await system.engine.counts(QUEUE)).waiting == 1
