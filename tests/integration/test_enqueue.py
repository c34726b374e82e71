"""Jobs outside the outbox, from the call to the result: on real servers, through cuts, silence and removals."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Deduplicate, Event, Homing, Job, Keep, PermanentError, Retry, Transaction
from homing.cli.exits import Exit
from homing.client import JobState
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.embedded import EmbeddedValkey
from homing.errors import JobFailed, JobGone, ResultTimeout, ServerUnavailable
from homing.ids import new_token
from homing.queue.job import ClaimedJob, KeepRule
from homing.queue.port import ClaimRequest
from tests.integration.commands import Said, commands_on
from tests.system import System, quick, running, with_sessions
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

COUNT = text("INSERT INTO points VALUES (:number)")


class Asked(Event, topic="enqueue.asked", unrouted=True):
    number: int = 0


class Counted(Event, topic="enqueue.counted", unrouted=True):
    number: int


class Desk:
    """An app whose handlers run when the test lets them, and what they did."""

    def __init__(self) -> None:
        self.app = Homing("desk", retry=Retry(attempts=1))
        self.queue = self.app.queue("desk", concurrency=1)
        self.unkept = self.app.queue("unkept", keep_completed=Keep(count=0))
        self.gate = asyncio.Event()
        self.gate.set()
        self.ran: list[tuple[int, float]] = []

        @self.queue.handler("work", on=Asked, at_least_once=True)
        async def work(event: Asked, job: Job) -> dict[str, int]:
            await self.gate.wait()
            self.ran.append((event.number, time.time()))
            job.progress(50)
            job.log(f"number {event.number}")
            return {"twice": 2 * event.number}

        @self.queue.handler("refuse", on=Asked, at_least_once=True)
        async def refuse(event: Asked) -> None:
            raise PermanentError(f"not {event.number}")

        @self.unkept.handler("count", on=Counted)
        async def count(event: Counted, tx: Transaction[AsyncSession]) -> int:
            await tx.execute(COUNT, {"number": event.number})
            await self.queue.enqueue("work", Asked(number=event.number))
            return event.number

        self.work, self.count = work, count

    @asynccontextmanager
    async def open(self, settings: Settings, *, worker: bool = True) -> AsyncIterator[System]:
        async with running(with_sessions(self.app, settings), quick(settings), worker=worker, relay=False) as system:
            try:
                yield system
            finally:
                await self.app.close()


async def test_from_the_call_to_the_result(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Results and failures come back, before and after they are asked for; notes stay with the job; one fact is one job and one effect."""
    desk = Desk()
    async with desk.open(settings) as system:
        await system.sql.execute("CREATE TABLE points (number integer)")
        handle = await desk.queue.enqueue(desk.work, Asked(number=21))
        assert await handle.result(seconds(60)) == {"twice": 42}
        assert await handle.result(60) == {"twice": 42}
        assert (await handle.progress(), (await handle.logs()).lines) == (50, ("number 21",))
        assert await desk.queue.job(handle.id).state() is JobState.COMPLETED
        refused = await desk.queue.enqueue("refuse", Asked(number=3))
        with pytest.raises(JobFailed, match="PermanentError: not 3") as failed:
            await refused.result(60)
        assert "not 3" in failed.value.reason
        assert (await system.letters())[0]["job_id"] == refused.id
        event = Counted(number=7)
        first, second = await desk.unkept.enqueue_many("count", [event, event])
        assert first == second
        assert await first.result(60) == 7
        await until(lambda: (7, desk.ran[-1][1]) in desk.ran, 30)
        assert await first.state() is None  # it is not kept: its result was among the events
        assert await first.result(60) == 7
        assert await system.sql.fetchval("SELECT count(*) FROM points") == 1
    assert caplog.text.count("unkept.count enqueues to desk from inside its transaction") == 1


async def test_order_delay_and_deduplication(settings: Settings) -> None:
    """Priorities, the newest first, delays and what gives way: as BullMQ has them, and nothing starts before its time."""
    desk = Desk()
    async with desk.open(settings):
        desk.gate.clear()
        first = await desk.queue.enqueue("work", Asked(number=0))
        await until(first.state, 30, "it is there")

        async def is_active() -> bool:
            return (await desk.queue.counts()).active == 1

        await until(is_active, 30)
        due = time.time() + 0.5
        delayed = await desk.queue.enqueue("work", Asked(number=9), delay=milliseconds(500))
        for number, options in ((4, {"priority": 2}), (3, {"priority": 1}), (2, {}), (1, {"lifo": True})):
            await desk.queue.enqueue("work", Asked(number=number), **options)
        same = Deduplicate("once")
        last = await desk.queue.enqueue("work", Asked(number=5), deduplicate=same, priority=3)
        again = await desk.queue.enqueue("work", Asked(number=6), deduplicate=same)
        assert (again.id, again.deduplicated, last.deduplicated) == (last.id, True, False)
        page = await desk.queue.jobs(JobState.PRIORITIZED, most=2)
        assert page.after is not None
        assert [listed.id for listed in (await desk.queue.jobs(JobState.PRIORITIZED, after=page.after)).jobs] == [
            last.id
        ]
        desk.gate.set()
        assert await again.result(60) == {"twice": 10}
        assert await delayed.result(60) == {"twice": 18}
    assert [number for number, _ in desk.ran if number != 9] == [0, 1, 2, 3, 4, 5]
    early_seconds = due - next(at for number, at in desk.ran if number == 9)
    assert early_seconds < 0.2  # the two clocks are compared over a connection, on a machine that may be busy


async def test_a_result_is_not_missed_while_the_connection_is_gone(
    settings: Settings, valkey_server: EmbeddedValkey
) -> None:
    """Jobs that end while the asker is cut off, and while its server is silent, are told when it is back; without a job, that is told."""
    desk, asker = Desk(), Desk()
    async with TcpProxy(valkey_server.port) as proxy, desk.open(settings) as system:
        asker.app.use(system.settings.model_copy(update={"redis_url": proxy.url(system.settings.redis_dsn)}))
        desk.gate.clear()
        handles = [await asker.queue.enqueue("work", Asked(number=number)) for number in range(3)]
        with pytest.raises(ResultTimeout, match="it goes on"):
            await handles[0].result(milliseconds(50))
        waiting = [asyncio.create_task(handle.result(60)) for handle in handles[:2]]
        removed = asyncio.create_task(handles[2].result(60))
        await until(lambda: proxy.accepted >= 2, 30)
        proxy.silence()
        assert await desk.queue.job(handles[2].id).remove()
        desk.gate.set()
        await until(lambda: len(desk.ran) == 2, 30)
        await proxy.heal()
        assert await asyncio.gather(*waiting) == [{"twice": 0}, {"twice": 2}]
        with pytest.raises(JobGone, match="no word of its end"):
            await removed
        await asker.app.close()


async def test_redis_that_is_away_or_silent_is_told_soon(settings: Settings, valkey_server: EmbeddedValkey) -> None:
    """A call fails and says so instead of waiting; nothing is sent later, and the next call works when the server is back."""
    desk = Desk()
    desk.app.use(settings.model_copy(update={"redis_url": "redis://localhost:1"}))
    with pytest.raises(ServerUnavailable, match="cannot connect"):
        await asyncio.wait_for(desk.queue.enqueue("work", Asked()), 30)
    await desk.app.close()
    async with TcpProxy(valkey_server.port) as proxy:
        desk.app.use(settings.model_copy(update={"redis_url": proxy.url(settings.redis_dsn)}))
        assert (await desk.queue.counts()).waiting == 0
        proxy.silence()
        with pytest.raises(ServerUnavailable, match=r"within 2 s|silent|lost") as told:
            await asyncio.wait_for(desk.queue.enqueue("work", Asked(), id="a"), 30)
        assert "enqueue again with id='a'" in str(told.value)
        await proxy.heal()

        async def is_enqueued() -> bool:
            try:
                return (await desk.queue.enqueue("work", Asked(), id="b")).id == "b"
            except ServerUnavailable:
                return False

        await until(is_enqueued, 30)
        assert (await desk.queue.counts()).waiting == 1
        await desk.app.close()


async def test_a_queue_is_looked_at_and_steered_from_code(redis_url: str, redis_prefix: str) -> None:
    """Pauses, turns and removals of a queue tool, without one; each says what there was to do."""
    desk = Desk()
    desk.app.use(Settings(redis_url=redis_url, prefix=redis_prefix))
    queue, engine = desk.queue, desk.app.client.engine
    await queue.pause()
    assert (await queue.terms()).paused
    await queue.resume()
    assert not (await queue.terms()).paused
    late = await queue.enqueue("work", Asked(), delay=seconds(600), deduplicate=Deduplicate("once"))
    assert [await late.promote(), await late.promote()] == [True, False]
    assert await queue.standing("once") == late.id
    assert [await queue.lift("once"), await queue.lift("once")] == [True, False]
    claimed = await engine.claim("desk", ClaimRequest(new_token(), 60))
    assert isinstance(claimed, ClaimedJob)
    assert [await late.remove(), await late.retry()] == [False, False]
    await engine.fail(claimed, "no", stack="", mark=None, keep=KeepRule(), claim_next=None)
    assert await late.retry()
    await queue.enqueue_many("work", [Asked(number=number) for number in range(3)], delay=seconds(600))
    assert [await queue.drain(), await queue.drain(delayed=True)] == [1, 3]
    done = await queue.enqueue("work", Asked())
    claimed = await engine.claim("desk", ClaimRequest(new_token(), 60))
    assert isinstance(claimed, ClaimedJob)
    await engine.complete(claimed, "null", mark=None, keep=KeepRule(), claim_next=None)
    assert await queue.clean(JobState.COMPLETED, older_than=seconds(600)) == 0
    assert await queue.clean(JobState.COMPLETED, older_than=seconds(0)) == 1
    assert await done.show() is None
    assert await queue.enqueue_many("work", []) == []
    await desk.app.close()


APP = """
from homing import Homing
from tests.integration.test_enqueue import Desk

app = Desk().app
"""


async def test_the_command_adds_a_job_and_waits_for_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is typed becomes the handler's event; mistakes are usage errors, failures are found wrong, and who did it is kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "desk_app.py").write_text(APP)
    desk = Desk()
    with commands_on(settings, monkeypatch, capsys) as homing:

        async def say(*words: str, given: str = "") -> Said:
            return await asyncio.to_thread(
                lambda: homing("--app", "desk_app:app", "--json", "enqueue", *words, given=given)
            )

        async with desk.open(settings) as system:
            told = json.loads((await say("desk", "work", '{"number": 4}', "--wait", "60s", "--id", "four")).out)
            assert told == {"queue": "desk", "id": "four", "deduplicated": False, "result": {"twice": 8}}
            told = json.loads(
                (await say("desk", "anything", "-", "--elsewhere", "--delay", "1h", given='{"a": 1}')).out
            )
            shown = await desk.queue.job(told["id"]).show()
            assert shown is not None
            assert (shown.state, shown.fields["data"]) == (JobState.DELAYED, '{"a":1}')
            failed = await say("desk", "refuse", "--wait", "60s")
            assert (failed.code, "not 0" in failed.err) == (Exit.FOUND_WRONG, True)
            mistakes = {
                ("desk", "wrok"): "did you mean work",
                ("desk", "work", '{"numbr": 1}'): "this is no Asked",
                ("desk", "work", "[1]"): "JSON object",
                ("desk", "work", "--id", "7"): "no integer",
                ("desk", "work", "--ttl", "5s"): "say --deduplicate ID too",
                ("desk", "work", "--delay", "soon"): "not a duration",
            }
            for words, text_of_error in mistakes.items():
                said = await say(*words)
                assert said.code == Exit.USAGE, words
                assert text_of_error in " ".join(said.err.split()), words
            assert (await say("dsek", "work")).code == Exit.NO_SUCH_ID
            kept = await system.sql.fetch("SELECT action, subject FROM homing.operator_actions ORDER BY id")
            assert [row["action"] for row in kept] == ["enqueue"] * 3
            assert '"id": "four"' in kept[0]["subject"]
