"""Jobs that no relay made: run, counted once, buried with what they carried, and parked when nobody knows them."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from bullmq import Job as OfficialJob  # type: ignore[import-untyped]  # it ships no types
from bullmq import Queue
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, PermanentError, Retry, Transaction, backoff
from homing.config.settings import Settings
from homing.deadletters.report import MAX_DEPTH, keepable_json, report_error
from homing.durations import milliseconds
from homing.embedded import EmbeddedPostgres
from homing.events.envelope import foreign_id
from homing.ids import JobId, inbox_id
from homing.queue.job import JobTrace, NewJob
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

ADD_POINTS = text("INSERT INTO points VALUES (:amount)")
FAST = Retry(attempts=2, backoff=backoff.fixed(milliseconds(10)))
TIME_MS = 1_767_225_600_000
JOB = JobId("order-17")
JOB_EVENT = UUID("11111111-2222-4333-8444-555555555555")


class Paid(Event, topic="foreign.paid", unrouted=True):
    amount: int


@pytest.fixture
async def official(settings: Settings) -> AsyncIterator[Any]:
    """The queue as another program sees it."""
    queue = Queue("mail", {"connection": settings.redis_dsn, "prefix": settings.prefix})
    yield queue
    await queue.close()


def envelope(amount: object = 7, **more: object) -> str:
    """What another producer sends: an envelope without a delivery."""
    return json.dumps({"eventId": str(uuid4()), "traceId": "t1", "payload": {"amount": amount}} | more)


async def add(system: System, data: str, *, name: str = "send", job_id: str = JOB, timestamp_ms: int = TIME_MS) -> None:
    """Hand a job over, past the outbox."""
    await system.engine.add(
        "mail", [NewJob(id=JobId(job_id), name=name, data=data, timestamp_ms=timestamp_ms, attempts=2)]
    )


async def ended(system: System, job_id: str = JOB) -> JobTrace:
    """What the engine knows of the job once it is finished."""

    async def finished() -> JobTrace | None:
        (trace,) = await system.engine.inspect("mail", [JobId(job_id)])
        return trace if trace.finished else None

    trace = await until(finished, what=f"job {job_id} has ended")
    assert trace is not None
    return trace


async def rows(system: System) -> list[tuple[UUID, str, str, int, str | None]]:
    """Every delivery."""
    found = await system.sql.fetch("SELECT event_id, consumer, origin, generation, outcome FROM homing.deliveries")
    return [tuple(row) for row in found]


def app_of(settings: Settings, runs: list[Job], *, at_least_once: bool = False) -> Homing:
    """An app whose handler refuses amounts below zero for good."""
    app = Homing("test")
    queue = app.queue("mail")

    async def send(event: Paid, tx: Transaction[AsyncSession], job: Job) -> dict[str, int]:
        runs.append(job)
        await tx.execute(ADD_POINTS, {"amount": event.amount})
        return judge(event)

    async def send_again(event: Paid, job: Job) -> dict[str, int]:
        runs.append(job)
        return judge(event)

    if at_least_once:
        queue.handler("send", on=Paid, retry=FAST, at_least_once=True)(send_again)
    else:
        queue.handler("send", on=Paid, retry=FAST)(send)
    return with_sessions(app, settings)


def judge(event: Paid) -> dict[str, int]:
    """Amounts below zero are refused for good."""
    if event.amount < 0:
        raise PermanentError("below zero")
    return {"paid": event.amount}


async def create_points(system: System) -> None:
    await system.sql.execute("CREATE TABLE points (amount bigint)")


async def points(system: System) -> list[int]:
    return [row["amount"] for row in await system.sql.fetch("SELECT amount FROM points")]


@pytest.mark.parametrize("at_least_once", [False, True], ids=["once", "at least once"])
async def test_a_job_that_is_handed_over_twice_counts_once(settings: Settings, *, at_least_once: bool) -> None:
    """Queue, id and time are its identity: the second hand-over completes with the first one's result, without a run."""
    runs: list[Job] = []
    async with running(app_of(settings, runs, at_least_once=at_least_once), quick(settings), relay=False) as system:
        await create_points(system)
        for _ in range(2):
            await add(system, envelope())
            assert (await ended(system)).mark == "done"
            assert await system.engine.remove("mail", JOB)
        assert len(runs) == 1
        assert await points(system) == ([] if at_least_once else [7])
        event_id = foreign_id("mail", JOB, TIME_MS)
        assert await rows(system) == [(event_id, "mail.send", "job", 1, "done")]
        assert (runs[0].event_id, runs[0].generation, runs[0].trace_id) == (event_id, 1, "t1")


async def test_an_id_that_is_used_again_is_another_job(settings: Settings) -> None:
    """A producer whose counter starts again after a flush is not taken for its own past."""
    runs: list[Job] = []
    async with running(app_of(settings, runs), quick(settings), relay=False) as system:
        await create_points(system)
        for offset in range(2):
            await add(system, envelope(), timestamp_ms=TIME_MS + offset)
            await ended(system)
            await system.engine.remove("mail", JOB)
        assert await points(system) == [7, 7]


async def test_a_job_of_the_official_queue_counts_once(settings: Settings, official: Any) -> None:
    """A job with the counter's id, from the official client, is settled like any other."""
    runs: list[Job] = []
    async with running(app_of(settings, runs), quick(settings), relay=False) as system:
        await create_points(system)
        job = await official.add("send", json.loads(envelope()), {})
        await ended(system, job.id)
        assert await points(system) == [7]
        assert await rows(system) == [(foreign_id("mail", job.id, job.timestamp), "mail.send", "job", 1, "done")]


@pytest.mark.parametrize("at_least_once", [False, True], ids=["once", "at least once"])
async def test_a_dead_job_is_adopted_with_its_data(settings: Settings, *, at_least_once: bool) -> None:
    """Its data becomes an event, so that it can be redriven: published, marked raw, with a dead delivery and a letter."""
    runs: list[Job] = []
    data = envelope(-1, note="kept as it came")
    async with running(app_of(settings, runs, at_least_once=at_least_once), quick(settings), relay=False) as system:
        await create_points(system)
        await add(system, data)
        trace = await ended(system)
        (letter,) = await system.letters()
        assert trace.mark == f"dead:{letter['id']}"
        assert trace.failed_reason == "PermanentError: below zero"
        event_id = foreign_id("mail", JOB, TIME_MS)
        assert await rows(system) == [(event_id, "mail.send", "job", 1, "dead")]
        assert (letter["event_id"], letter["kind"], letter["job_id"]) == (event_id, "failed", JOB)
        assert json.loads(letter["data"]) == json.loads(data)
        event = await system.sql.fetchrow("SELECT topic, payload, headers, published_at FROM homing.outbox_events")
        assert event is not None
        assert event["topic"] == "foreign.paid"
        assert json.loads(event["payload"]) == json.loads(data)
        assert json.loads(event["headers"]) == {"raw": True}
        assert event["published_at"] is not None
        assert await points(system) == []


async def test_a_dead_job_that_is_retried_in_place_is_adopted_and_may_die_again(
    settings: Settings, official: Any
) -> None:
    """A person's retry opens the row and closes the letter; when it fails again there is a new letter, not an endless job."""
    runs: list[Job] = []
    async with running(app_of(settings, runs), quick(settings), relay=False) as system:
        await create_points(system)
        await add(system, envelope(-1))
        first = await ended(system)
        job = await OfficialJob.fromId(official, JOB)
        await job.retry("failed")

        async def second_death() -> bool:
            return len(await system.letters()) == 2

        await until(second_death, what="a second letter")
        last = await ended(system)
        one, other = await system.letters()
        assert (one["closed_as"], other["closed_as"]) == ("retried", None)
        assert (first.mark, last.mark) == (f"dead:{one['id']}", f"dead:{other['id']}")
        assert len(runs) == 2
        assert [row[-1] for row in await rows(system)] == ["dead"]
        assert await system.sql.fetchval("SELECT count(*) FROM homing.outbox_events") == 1


async def test_an_adopted_job_that_runs_again_brings_its_handler_the_same_event(settings: Settings) -> None:
    """The job that the look makes of it carries what the producer sent, read the same way, under the delivery that was buried."""
    seen: list[tuple[Paid, UUID, str]] = []
    app = Homing("test")

    @app.queue("mail").handler("send", on=Paid, at_least_once=True, retry=FAST)
    async def send(event: Paid, job: Job) -> None:
        seen.append((event, job.event_id, job.trace_id))
        if len(seen) == 1:
            raise PermanentError("not today")

    async with running(app, quick(settings)) as system:
        await add(system, envelope(41))
        await ended(system)
        await system.sql.execute(
            "UPDATE homing.deliveries SET outcome = NULL, settled_at = NULL, generation = 2, epoch = 0, check_at = now()"
        )
        await system.settled()
        first, second = seen
        assert first == second
        assert (second[0].amount, second[2]) == (41, "t1")
        ((event_id, consumer, origin, generation, outcome),) = await rows(system)
        assert (event_id, consumer, origin, generation, outcome) == (second[1], "mail.send", "job", 2, "done")
        assert len(await system.letters()) == 1


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ("{", {"raw": "{"}),
        ("null", None),
        ('"text"', "text"),
        ('{"a": "\\u0000"}', {"raw": '{"a": "\\u0000"}'}),
        ("NaN", {"raw": "NaN"}),
        ("[" * 3000 + "]" * 3000, {"raw": "[" * 3000 + "]" * 3000}),
        ('{"eventId": "17", "payload": {}}', {"eventId": "17", "payload": {}}),
        (envelope("much"), ...),
        (envelope(delivery={"consumer": "a\x00b", "generation": 1, "openedAt": "2026-01-01T00:00:00Z"}), ...),
        (envelope(delivery={"consumer": "mail.send", "generation": 99_999, "openedAt": "2026-01-01T00:00:00Z"}), ...),
        (envelope(delivery={"consumer": "mail.send", "generation": 1, "openedAt": "2026-01-01T00:00:00"}), ...),
    ],
    ids=["broken", "null", "text", "nul", "nan", "deep", "no uuid", "payload", "consumer", "generation", "no zone"],
)
async def test_data_that_nobody_can_read_is_buried_as_it_came(settings: Settings, data: str, kept: object) -> None:
    """Whatever another producer sends ends as a letter with that data, and the worker takes the next job."""
    runs: list[Job] = []
    async with running(app_of(settings, runs), quick(settings), relay=False) as system:
        await create_points(system)
        await add(system, data)
        trace = await ended(system)
        (letter,) = await system.letters()
        assert trace.mark == f"dead:{letter['id']}"
        assert "PayloadError" in (trace.failed_reason or "")
        assert (letter["kind"], letter["consumer"]) == ("failed", "mail.send")
        stored = json.loads(letter["data"])
        assert stored == kept if kept is not ... else stored == json.loads(data) or set(stored) == {"raw"}
        assert runs == []
        await add(system, envelope(), job_id="next-one")
        assert (await ended(system, "next-one")).mark == "done"
        assert await points(system) == [7]


async def test_an_unknown_job_is_parked(settings: Settings) -> None:
    """A job that this worker does not know waits for one that does: not failed, not buried, no attempt spent."""
    runs: list[Job] = []
    async with running(app_of(settings, runs), quick(settings), relay=False) as system:
        await create_points(system)
        await add(system, envelope(), name="another")

        async def parked() -> bool:
            return (await system.engine.counts("mail")).delayed == 1

        await until(parked, what="the job is delayed")
        (trace,) = await system.engine.inspect("mail", [JOB])
        assert not trace.finished
        assert await system.letters() == []
        assert await rows(system) == []
        await add(system, envelope(), job_id="next-one")
        assert (await ended(system, "next-one")).mark == "done"
        assert len(runs) == 1


@pytest.mark.parametrize("result", ["\x00", "\ud800"], ids=["nul", "surrogate"])
async def test_a_result_that_cannot_be_kept_does_not_hurt_its_neighbours(settings: Settings, result: str) -> None:
    """Settles travel together: one that the database would refuse is dead by itself, the others are done."""
    app = Homing("test")

    @app.queue("mail").handler("send", on=Paid, at_least_once=True, retry=FAST)
    async def send(event: Paid) -> str:
        return result if event.amount == 0 else "fine"

    async with running(app, quick(settings), worker=True, relay=False) as system:
        for amount in range(5):
            await add(system, envelope(amount), job_id=f"job-{amount}")
        marks = [(await ended(system, f"job-{amount}")).mark for amount in range(5)]
        (letter,) = await system.letters()
        assert marks == [f"dead:{letter['id']}", "done", "done", "done", "done"]
        assert "NUL or a lone surrogate" in letter["error"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
)


@given(data=values.map(json.dumps) | st.text(st.characters()))
@example(data="[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1))
@example(data="9" * 4000)
@example(data='{"a":1e308,"b":1e-320}')
def test_jsonb_takes_all_evidence(postgres_server: EmbeddedPostgres, data: str) -> None:
    """Whatever a job carried and an error said, PostgreSQL keeps it: the row of a letter can always be written."""
    with psycopg.connect(postgres_server.url()) as connection:
        kept = connection.execute(
            "SELECT %s::text::jsonb, %s::text::jsonb", [keepable_json(data), report_error(ValueError(data)).as_json()]
        ).fetchone()
    assert kept is not None


async def test_copies_of_a_message_are_one_job(settings: Settings) -> None:
    """Under `message_id` two jobs of other ids and times are one message; with `raise` the copy fails, without a letter."""
    app = Homing("test")
    queue = app.queue("mail")

    @queue.handler("send", on=Paid, retry=FAST, message_id=lambda data: data["eventId"], on_duplicate="raise")
    async def send(event: Paid, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(ADD_POINTS, {"amount": event.amount})

    @queue.handler("count", on=Paid, retry=FAST, message_id="amount", at_least_once=True)
    async def count(event: Paid) -> int:
        return event.amount

    async with running(with_sessions(app, settings), quick(settings), relay=False) as system:
        await create_points(system)
        for name in ("send", "count"):
            for copy, data in enumerate([envelope(eventId=str(JOB_EVENT)), envelope(eventId=str(JOB_EVENT), more=1)]):
                await add(system, data, name=name, job_id=f"{name}-{copy}", timestamp_ms=TIME_MS + copy)
                await ended(system, f"{name}-{copy}")
        assert await points(system) == [7]
        (trace,) = await system.engine.inspect("mail", [JobId("send-1")])
        assert (trace.failed_reason or "").startswith("DuplicateDelivery: mail.send has done")
        assert (await ended(system, "count-1")).mark == "done"
        assert await rows(system) == [
            (inbox_id(JOB_EVENT), "mail.send", "job", 1, "done"),
            (inbox_id("7"), "mail.count", "job", 1, "done"),
        ]
        assert await system.letters() == []
        await add(system, envelope(), name="count", job_id="count-2")
        await add(system, json.dumps({"eventId": str(uuid4()), "payload": {}}), name="count", job_id="count-3")
        assert (await ended(system, "count-2")).mark == "done"
        assert "does not name its message" in ((await ended(system, "count-3")).failed_reason or "")
