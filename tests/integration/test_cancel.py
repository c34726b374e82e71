"""Cancelling a delivery: for good, without waiting for anybody, and told as it is."""

import asyncio
import io
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from homing import Event, Homing
from homing.cli.exits import Exit
from homing.cli.main import main
from homing.config.settings import Settings
from homing.durations import seconds
from homing.errors import ServerUnavailable
from homing.ids import DeliveryKey, JobId, new_token
from homing.ledger.actions import Person
from homing.operations.cancel import Answer, cancel
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "work"
PERSON = Person("alice@office", "wrong address")
Run = Callable[..., Awaitable[tuple[int, str]]]

app = Homing("cancelling")


class Asked(Event, topic="cancel.asked", unrouted=True):
    number: int = 0


@app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
async def do(event: Asked) -> None:
    raise AssertionError(f"{event} ran")


def job_id(event: Event, generation: int = 1) -> JobId:
    return DeliveryKey(event.event_id, "work.do", generation).job_id


async def waiting(system: System, *events: Event) -> None:
    """Record events, and wait until their jobs wait."""
    await system.record(*events)

    async def all_wait() -> bool:
        return (await system.engine.counts(QUEUE)).waiting == len(events)

    await until(all_wait, what="the jobs wait")


async def test_each_id_has_its_answer(settings: Settings) -> None:
    """Waiting: gone for good. Leased: cancelled, and its run told of. Held by a handler, settled, redriven, unknown: left as they are."""
    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        leased, waits, held, done, redriven = (Asked(number=number) for number in range(5))
        await waiting(system, leased)
        job = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
        assert isinstance(job, ClaimedJob)
        await waiting(system, waits, held, done, redriven)
        await system.sql.execute(
            "UPDATE homing.deliveries SET outcome = 'done', settled_at = now() WHERE event_id = $1", done.event_id
        )
        await system.sql.execute("UPDATE homing.deliveries SET generation = 2 WHERE event_id = $1", redriven.event_id)
        handler = await asyncpg.connect(settings.asyncpg_dsn)
        async with handler.transaction():
            await handler.execute("SELECT FROM homing.deliveries WHERE event_id = $1 FOR UPDATE", held.event_id)
            ids = [*(job_id(event) for event in (leased, waits, held, done, redriven, Asked())), JobId("17")]
            answers = await cancel(system.ledger, system.engine, ids, PERSON)
        await handler.close()
        assert [answer.job_id for answer in answers] == ids
        assert [(answer.answer, answer.outcome) for answer in answers] == [
            (Answer.CANCELLED_WHILE_RUNNING, None),
            (Answer.CANCELLED, None),
            (Answer.RUNNING, None),
            (Answer.SETTLED, "done"),
            (Answer.REDRIVEN, None),
            (Answer.UNKNOWN, None),
            (Answer.UNKNOWN, None),
        ]
        traces = await system.engine.inspect(QUEUE, [job_id(waits), job_id(held)])
        assert [trace.exists for trace in traces] == [False, True]
        (action,) = await system.sql.fetch("SELECT * FROM homing.operator_actions")
        assert (action["actor"], action["action"], action["affected"]) == ("alice@office", "cancel", 2)
        assert sorted(json.loads(action["subject"])["jobs"]) == sorted([job_id(leased), job_id(waits)])
        assert await cancel(system.ledger, system.engine, [job_id(waits)], PERSON) != answers
        await system.engine.complete(job, "null", mark=None, keep=KeepRule(), claim_next=None)


async def test_a_cancelled_delivery_never_comes_back_and_a_removed_one_does(settings: Settings) -> None:
    """Removing a job in a queue tool only makes the look dispatch it again; cancelling it is for good, also where its job stayed."""
    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        removed, cancelled = Asked(number=1), Asked(number=2)
        await waiting(system, removed, cancelled)
        for event in (removed, cancelled):
            assert await system.engine.remove(QUEUE, job_id(event))
        (answer,) = await cancel(system.ledger, system.engine, [job_id(cancelled)], PERSON)
        assert answer.answer is Answer.CANCELLED
        await system.sql.execute("UPDATE homing.deliveries SET check_at = now()")
        assert system.relay is not None
        await system.relay.sweep.tick()
        traces = await system.engine.inspect(QUEUE, [job_id(removed), job_id(cancelled)])
        assert [trace.exists for trace in traces] == [True, False]


async def test_a_job_that_could_not_be_removed_ends_without_running(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may be away: the delivery is cancelled, and its job ends as such before its handler would begin."""
    async with running(app, quick(settings), worker=False) as system:
        event = Asked()
        await waiting(system, event)

        async def away(queue: str, job_id: JobId) -> bool:
            raise ServerUnavailable(f"{queue} is away")

        monkeypatch.setattr(system.engine, "remove", away)
        (answer,) = await cancel(system.ledger, system.engine, [job_id(event)], PERSON)
        assert answer.answer is Answer.CANCELLED_NOT_REMOVED
    async with running(app, quick(settings), relay=False) as system:

        async def ended() -> bool:
            return (await system.engine.counts(QUEUE)).completed == 1

        await until(ended, what="the job has ended")
        assert await system.letters() == []


@pytest.fixture
def run(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs `homing --json …` on this test's servers, with this text on stdin: exit code and stdout."""
    (tmp_path / "cancelling.py").write_text("from homing import Homing\n\napp = Homing('cancelling')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DATABASE_URL", settings.asyncpg_dsn)
    monkeypatch.setenv("REDIS_URL", settings.redis_dsn)
    monkeypatch.setenv("HOMING_PREFIX", str(settings.prefix))

    async def command(*arguments: str, given: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        code = await asyncio.to_thread(main, ["--app", "cancelling:app", "--json", *arguments])
        return code, capsys.readouterr().out

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield command
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_the_command_cancels_and_tells_by_its_exit_code(settings: Settings, run: Run) -> None:
    """Ids from the line or from standard input; asked for unless told not to; 0 cancelled, 5 not cancelled, 6 unknown."""
    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        event = Asked()
        await waiting(system, event)
        assert (await run("jobs", "cancel", job_id(event)))[0] == Exit.REFUSED
        assert await system.unsettled() == 1
        assert (await run("jobs", "cancel", "--yes", "17"))[0] == Exit.NO_SUCH_ID
        code, said = await run("jobs", "cancel", "--yes", "--why", "typo", "-", given=f"{job_id(event)}\n")
        assert (code, json.loads(said)) == (Exit.DONE, [{"job": job_id(event), "answer": "cancelled", "outcome": None}])
        assert await system.deliveries() == {"work.do": "cancelled"}
        assert (await run("jobs", "cancel", "--yes", job_id(event)))[0] == Exit.REFUSED
        assert (await system.engine.counts(QUEUE)).waiting == 0
        assert await system.sql.fetchval("SELECT reason FROM homing.operator_actions") == "typo"
