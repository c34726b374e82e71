"""Why is it not running, asked on real servers: the facts that the judgement needs are found."""

import socket
from uuid import uuid4

import asyncpg
import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import days, seconds
from homing.errors import UnknownId
from homing.ids import DeliveryKey, JobId, new_token
from homing.ledger.actions import Person
from homing.operations.cancel import cancel
from homing.operations.explain import Because
from homing.operations.explaining import explain_id
from homing.operations.queues import pause
from homing.queue.browse import SteeredEngine
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.parked import ParkedKind
from homing.queue.port import ClaimRequest
from homing.queue.redis import RedisEngine
from tests.integration.buried import bury
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "work"
ALICE = Person("alice@office")

app = Homing("explaining")


class Asked(Event, topic="explain.asked", unrouted=True):
    number: int = 0


class Orphan(Event, topic="explain.orphan", unrouted=True):
    number: int = 0


@app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
async def do(event: Asked) -> None: ...


@app.queue("mail").handler("tell", on=Asked, at_least_once=True)
async def tell(event: Asked) -> None: ...


def engine_of(system: System) -> SteeredEngine:
    assert isinstance(system.engine, RedisEngine)
    return system.engine


def job_id(event: Event, consumer: str = "work.do") -> JobId:
    return DeliveryKey(event.event_id, consumer, 1).job_id


async def because(system: System, text: str) -> list[Because]:
    """The reasons for the one thing with this id."""
    (explained,) = await explain_id(system.ledger, engine_of(system), text)
    return [reason.because for reason in explained.reasons]


async def list_worker(system: System, consumer: str) -> None:
    """A live process that routes, and serves the queue with a handler for this consumer only."""
    await system.sql.execute("DELETE FROM homing.workers")
    await system.sql.execute(
        "INSERT INTO homing.workers (id, host, pid, version, role, consumers, queues, routes)"
        " VALUES ($1, 'here', 1, '1', 'worker', $2, '{work}', true)",
        uuid4(),
        [consumer],
    )


async def waiting(system: System, *events: Event) -> None:
    await system.record(*events)

    async def all_wait() -> bool:
        return (await system.engine.counts(QUEUE)).waiting == len(events)

    await until(all_wait, what="the jobs wait")


async def test_what_is_not_routed_says_so(settings: Settings) -> None:
    """An event without a relay, for later, without a consumer, with an error; and what nobody knows is an unknown id."""
    async with running(app, quick(settings), worker=False, relay=False) as system:
        due, later, parked, orphan = Asked(), Asked(), Asked(), Orphan()
        await system.record(due, later, parked, orphan)
        set_to = "UPDATE homing.outbox_events SET {} WHERE id = $1"
        await system.sql.execute(set_to.format("available_at = now() + interval '1 h'"), later.event_id)
        await system.sql.execute(set_to.format("parked_error = 'no object'"), parked.event_id)
        assert await because(system, str(due.event_id)) == [Because.NO_RELAY]
        assert await because(system, job_id(due)) == [Because.NO_RELAY]
        assert await because(system, str(later.event_id)) == [Because.SCHEDULED]
        assert await because(system, str(parked.event_id)) == [Because.EVENT_PARKED]
        assert await because(system, str(orphan.event_id)) == [Because.UNROUTABLE]
        await list_worker(system, "work.do")
        assert await because(system, str(due.event_id)) == [Because.NOT_ROUTED]
        for unknown in ("17", str(uuid4()), job_id(Asked()), "\x1b[31m"):
            with pytest.raises(UnknownId, match="neither the ledger nor a queue knows"):
                await because(system, unknown)


async def test_a_delivery_is_explained_from_line_to_end(settings: Settings) -> None:
    """No worker, a worker without its handler, its turn, a pause, a run, an open transaction, a lost job, a cancellation, a death."""
    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        event, gone = Asked(number=1), Asked(number=2)
        await waiting(system, event)
        assert await because(system, job_id(event)) == [Because.NO_WORKER, Because.IN_LINE]
        await list_worker(system, "work.other")
        assert await because(system, job_id(event)) == [Because.UNKNOWN_TO_WORKERS, Because.IN_LINE]
        await list_worker(system, "work.do")
        assert await because(system, job_id(event)) == [Because.IN_LINE]
        age = "UPDATE homing.deliveries SET opened_at = opened_at + $1::interval"
        await system.sql.execute(age, days(-15))
        assert await because(system, job_id(event)) == [Because.EXPIRED, Because.IN_LINE]
        await system.sql.execute(age, days(15))
        await pause(system.ledger, engine_of(system), QUEUE, ALICE)
        assert await because(system, job_id(event)) == [Because.PAUSED, Because.IN_LINE]
        both = await explain_id(system.ledger, engine_of(system), str(event.event_id))
        assert [(each.job_id, each.reasons[0].because) for each in both] == [
            (job_id(event, "mail.tell"), Because.NO_WORKER),
            (job_id(event), Because.PAUSED),
        ]
        handler = await asyncpg.connect(settings.asyncpg_dsn)
        async with handler.transaction():
            await handler.execute("UPDATE homing.deliveries SET outcome = 'done', settled_at = now()")
            assert await because(system, job_id(event)) == [Because.HELD, Because.PAUSED, Because.IN_LINE]
        await handler.close()
        await system.sql.execute("UPDATE homing.deliveries SET outcome = NULL, settled_at = NULL")
        await cancel(system.ledger, system.engine, [job_id(event)], ALICE)
        assert await because(system, job_id(event)) == [Because.CANCELLED]
        await waiting(system, gone)
        await system.engine.remove(QUEUE, job_id(gone))
        assert await because(system, job_id(gone)) == [Because.NO_JOB]
        await system.sql.execute("UPDATE homing.deliveries SET generation = 2 WHERE event_id = $1", gone.event_id)
        assert await because(system, job_id(gone)) == [Because.SUPERSEDED, Because.NO_JOB]
        (letter,) = await bury(system.sql, 1)
        died = await system.sql.fetchval("SELECT job_id FROM homing.dead_letters WHERE id = $1", letter)
        assert await because(system, died) == [Because.DEAD]


async def test_running_parked_and_foreign_jobs_are_explained(settings: Settings) -> None:
    """A lease, a job that its worker did not know, one that failed and waits, and one that no relay made."""
    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        event = Asked()
        await waiting(system, event)
        await list_worker(system, "work.do")
        request = ClaimRequest(new_token(), 30.0, worker="here-1")
        job = await system.engine.claim(QUEUE, request)
        assert isinstance(job, ClaimedJob)
        (running_now,) = await explain_id(system.ledger, engine_of(system), job_id(event))
        assert running_now.reasons[0].text.startswith("it runs now on here-1, as attempt 1 of")
        kind = ParkedKind("do", "work.do", 2)
        await system.engine.park(job, kind, 60.0, "its payload is newer", claim_next=None)
        assert await because(system, job_id(event)) == [Because.PARKED]
        await system.engine.unpark(QUEUE, [kind])
        job = await system.engine.claim(QUEUE, request)
        assert isinstance(job, ClaimedJob)
        await system.engine.retry(job, 60, spend_attempt=True, reason="slow", stack="", claim_next=None)
        assert await because(system, job_id(event)) == [Because.RETRY_DUE]
        await system.engine.add(QUEUE, [NewJob(id=JobId("node-17"), name="do", data="{}", timestamp_ms=0)])
        assert await because(system, "node-17") == [Because.IN_LINE]
        job = await system.engine.claim(QUEUE, request)
        assert isinstance(job, ClaimedJob)
        await system.engine.fail(job, "no", stack="", mark=None, keep=KeepRule(), claim_next=None)
        assert await because(system, "node-17") == [Because.FAILED]


async def test_a_silent_engine_is_a_reason(settings: Settings) -> None:
    """The ledger's part is told, and that the engine did not answer."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = RedisEngine(f"redis://127.0.0.1:{closed.getsockname()[1]}")
        async with running(app, quick(settings, look=days(1)), worker=False) as system:
            event = Asked()
            await waiting(system, event)
            (explained,) = await explain_id(system.ledger, away, job_id(event))
            assert [reason.because for reason in explained.reasons] == [Because.ENGINE_AWAY]
        await away.close()
