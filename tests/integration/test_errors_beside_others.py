"""Handlers that fail in the worst ways while others run beside them: each failure is one job's own, is told, and nobody else pays."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Retry, Transaction, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from tests.system import quick, running, with_sessions
from tests.waiting import until


class Asked(Event, topic="beside.asked", unrouted=True):
    mood: str
    number: int = 0


class Held(Event, topic="beside.held", unrouted=True):
    number: int = 0


RETRY = Retry(attempts=2, backoff=backoff.fixed(milliseconds(20)))


async def await_a_cancelled_task() -> None:
    """A `CancelledError` that nobody of ours caused."""
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancel_oneself() -> None:
    """What a library does that wants to end its caller."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def lose_a_group() -> None:
    """A group of tasks of which one ends the interpreter, as it thinks."""

    async def leave() -> None:
        raise GeneratorExit("inside a group")

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
        group.create_task(leave())


async def run_out_of_time() -> None:
    """A time-out of the handler's own."""
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


def raising(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


MOODS: dict[str, tuple[Callable[[], Awaitable[None]], str]] = {
    "cancelled": (await_a_cancelled_task, "CancelledError"),
    "cancels itself": (cancel_oneself, "CancelledError"),
    "group": (lose_a_group, "BaseExceptionGroup"),
    "time": (run_out_of_time, "TimeoutError"),
    "exit": (raising(SystemExit(3)), "SystemExit"),
    "interrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "generator": (raising(GeneratorExit()), "GeneratorExit"),
    "groups": (raising(BaseExceptionGroup("all", [asyncio.CancelledError(), SystemExit()])), "BaseExceptionGroup"),
}


class Neighbours:
    """Runs that were there before the trouble and are there after it."""

    def __init__(self) -> None:
        self.entered: list[int] = []
        self.may_leave = asyncio.Event()

    async def stay(self, number: int) -> None:
        self.entered.append(number)
        await self.may_leave.wait()


def app_with(neighbours: Neighbours, kind: str) -> Homing:
    """Two queues with a neighbour in each of them, and a handler of this kind that has moods."""
    app = Homing("beside")
    work = app.queue("work", concurrency=20)

    @work.handler("stay", on=Held, at_least_once=True)
    async def stay(event: Held) -> None:
        await neighbours.stay(event.number)

    @work.handler("stay-once", on=Held, consumer="work.stay-once")
    async def stay_once(event: Held, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(text("SELECT 1"))
        await neighbours.stay(event.number)

    if kind == "plain":

        @work.handler("fail", on=Asked, at_least_once=True, retry=RETRY)
        async def fail(event: Asked) -> None:
            await MOODS[event.mood][0]()

    elif kind == "transaction":

        @work.handler("fail", on=Asked, retry=RETRY)
        async def fail_once(event: Asked, tx: Transaction[AsyncSession]) -> None:
            await tx.execute(text("INSERT INTO effects VALUES (:mood)"), {"mood": event.mood})
            await MOODS[event.mood][0]()

    else:

        @work.handler("fail", on=Asked, retry=RETRY, batch=4)
        async def fail_batch(events: Sequence[Asked], tx: Transaction[AsyncSession]) -> None:
            for event in events:
                await tx.execute(text("INSERT INTO effects VALUES (:mood)"), {"mood": event.mood})
                await MOODS[event.mood][0]()

    return app


@pytest.mark.parametrize("kind", ["plain", "transaction", "batch"])
async def test_the_worst_errors_of_some_leave_the_others_running(
    settings: Settings, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each dies alone after its attempts, with a line for each failed run and a letter; runs beside them end as if nothing had been."""
    caplog.set_level(logging.INFO)
    neighbours = Neighbours()
    async with running(with_sessions(app_with(neighbours, kind), settings), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE effects (mood text)")
        await system.record(Held())
        await until(lambda: len(neighbours.entered) == 2, what="the neighbours run")
        await system.record(*(Asked(mood=mood) for mood in MOODS))

        async def all_dead() -> bool:
            return len(await system.letters()) == len(MOODS)

        await until(all_dead, 20, "each has its letter")
        letters = await system.letters()
        for _, name in MOODS.values():
            assert [letter for letter in letters if f'"{name}"' in letter["error"]], name
        assert {letter["attempts_made"] for letter in letters} == {2}
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == 0
        assert system.worker is not None
        assert system.worker.running == 2
        assert system.worker.health().ready
        neighbours.may_leave.set()
        await system.settled()
        assert neighbours.entered == [0, 0]
        assert [letter["closed_as"] for letter in await system.letters()] == [None] * len(MOODS)
    failed = [record for record in caplog.records if getattr(record, "outcome", None) in ("retry", "dead")]
    assert len(failed) == 2 * len(MOODS)
    assert {record.levelname for record in failed} == {"WARNING"}


MISTAKES = [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]


async def test_rules_of_the_application_that_fail_as_badly_end_no_worker(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """A back-off and a key of a limit are the application's own code too: the shipped rule counts, and the job is dead as one that failed."""
    app = Homing("beside")
    expected: dict[str, str] = {}
    for number, mistake in enumerate(MISTAKES):
        declare_with_mistaken_rules(app, number, mistake)
        expected |= {f"waits-{number}.fail": "dead", f"keyed-{number}.begin": "dead"}
    async with running(app, quick(settings)) as system:
        await system.record(Asked(mood=""))

        async def all_dead() -> bool:
            return await system.deliveries() == expected

        await until(all_dead, 15, "all of them are dead")
        letters = {letter["consumer"]: letter for letter in await system.letters()}
        for number, mistake in enumerate(MISTAKES):
            assert type(mistake).__name__ in letters[f"keyed-{number}.begin"]["error"]
            assert letters[f"waits-{number}.fail"]["attempts_made"] == 2
            assert "OSError" in letters[f"waits-{number}.fail"]["error"]
    assert len([line for line in caplog.messages if "own_wait gives no answer" in line]) == len(MISTAKES)


def declare_with_mistaken_rules(app: Homing, number: int, mistake: BaseException) -> None:
    """A handler whose own back-off fails like this, and one whose key does."""

    async def own_wait(attempt: int, failure: BaseException) -> float:
        raise mistake

    def own_key(event: Any) -> str:
        raise mistake

    waits = app.queue(f"waits-{number}", retry=Retry(attempts=2, backoff=own_wait))
    keyed = app.queue(f"keyed-{number}", limit_key=own_key, retry=Retry(attempts=1))

    @waits.handler("fail", on=Asked, at_least_once=True)
    async def fail(event: Asked) -> None:
        raise OSError("away")

    @keyed.handler("begin", on=Asked, at_least_once=True)
    async def begin(event: Asked) -> None:
        raise AssertionError("it has no key")
