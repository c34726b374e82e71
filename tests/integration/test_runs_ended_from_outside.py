"""Runs whose end others decide: a child whose lease another run took is killed, a cancelled delivery stays cancelled whatever its run does."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest
from redis import Redis

from homing import Event, Homing, Job, PermanentError, Retry, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.ids import DeliveryKey
from homing.ledger.actions import Person
from homing.operations.cancel import Answer, cancel
from homing.queue.redis.keys import QueueKeys
from tests.system import quick, running
from tests.waiting import until, wait_until

FAST = Retry(attempts=3, backoff=backoff.fixed(milliseconds(20)))
PERSON = Person("alice@office", "wrong address")


class Asked(Event, topic="outside.asked", unrouted=True):
    number: int = 0


class Drawn(Event, topic="outside.drawn", unrouted=True):
    note: Path
    gate: Path


drawing = Homing("drawing")


@drawing.queue("pictures").handler("draw", on=Drawn, at_least_once=True, cpu=True)
def draw(event: Drawn, job: Job) -> int:
    """In a child process, at the top of a module, where it is found."""
    event.note.write_text(f"{os.getpid()}\n", encoding="ascii")
    wait_until(event.gate.exists, 60, "the gate")
    return job.attempt


async def pid_in(note: Path) -> int:
    """The process id that the handler wrote down."""

    def text() -> str:
        found = note.read_text(encoding="ascii") if note.exists() else ""
        return found if found.endswith("\n") else ""

    return int(await until(text, 30, "the handler runs"))


async def test_a_child_whose_lease_was_taken_is_killed_and_its_job_left_alone(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else could end it: its work stops, the loss is counted and told, and the other run's lock stands."""
    note, gate = tmp_path / "pid", tmp_path / "gate"
    brief = quick(settings, lease=seconds(1.5), beat=milliseconds(100), rescue=milliseconds(300))
    async with running(drawing, brief) as system:
        worker = system.worker
        assert worker is not None
        event = Drawn(note=note, gate=gate)
        await system.record(event)
        pid = await pid_in(note)
        job_id = DeliveryKey(event.event_id, "pictures.draw", 1).job_id
        lock = QueueKeys(settings.prefix or "", "pictures").lock(job_id)
        with Redis.from_url(settings.redis_dsn) as client:
            client.set(lock, "another", px=60_000)
            await until(lambda: not psutil.pid_exists(pid), what="the child is gone")
            await until(lambda: worker.running == 0, what="its run is over")
            assert worker.leases_lost == 1
            assert client.get(lock) == b"another"
            assert await system.deliveries() == {"pictures.draw": None}
            note.unlink()
            gate.touch()
            client.delete(lock)  # the other one dies
        await system.settled(20)
        assert await pid_in(note) != pid
        assert await system.letters() == []
        assert await system.sql.fetchval("SELECT result FROM homing.deliveries") == "1"
    assert "another run holds its lease; this one is told to end" in caplog.text


@pytest.mark.parametrize("end", ["returns", "fails", "is dead"])
async def test_a_delivery_that_is_cancelled_while_it_runs_stays_cancelled(settings: Settings, end: str) -> None:
    """Every slot is taken and the order counts all the same; the run goes on, and however it ends, nothing follows from it."""
    app = Homing("outside")
    entered: list[int] = []
    may_leave = asyncio.Event()

    @app.queue("work", concurrency=1).handler("do", on=Asked, at_least_once=True, retry=FAST)
    async def do(event: Asked) -> None:
        entered.append(event.number)
        if event.number == 0:
            await may_leave.wait()
            if end == "fails":
                raise ValueError("once")
            if end == "is dead":
                raise PermanentError("for good")

    async with running(app, quick(settings, shutdown_grace=seconds(30))) as system:
        first, second = Asked(number=0), Asked(number=1)
        await system.record(first)
        await until(lambda: entered, what="the only slot is taken")
        await system.record(second)
        job_id = DeliveryKey(first.event_id, "work.do", 1).job_id
        (answer,) = await cancel(system.ledger, system.engine, [job_id], PERSON)
        assert answer.answer is Answer.CANCELLED_WHILE_RUNNING
        may_leave.set()
        await system.settled()

        async def both_ended() -> bool:
            counts = await system.engine.counts("work")
            return (counts.completed, counts.active, counts.waiting, counts.delayed) == (2, 0, 0, 0)

        await until(both_ended, 20, "both jobs have ended")
        assert entered == [0, 1]
        rows = await system.sql.fetch("SELECT event_id, outcome FROM homing.deliveries")
        assert {row["event_id"]: row["outcome"] for row in rows} == {
            first.event_id: "cancelled",
            second.event_id: "done",
        }
        assert await system.letters() == []
