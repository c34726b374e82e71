"""The runner of background loops, step by step, without waiting for time to pass."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from homing.clock import ManualClock
from homing.errors import ServerUnavailable
from homing.service import MAX_ERROR_WAIT_SECONDS, Loop, Progress, share_outages, stop_all

LONG = 3600.0
"""An interval that no test outlasts: what happens within a test was not caused by it."""


class Ticks:
    """A tick that does what it is told, says that it began, and ends when it is let."""

    def __init__(self, *script: Progress | BaseException) -> None:
        self.script = list(script)
        self.began: asyncio.Queue[int] = asyncio.Queue()
        self.ended: asyncio.Queue[int] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()
        self.count = 0

    async def __call__(self) -> Progress:
        self.count += 1
        number = self.count
        self.began.put_nowait(number)
        await self.gate.wait()
        step = self.script.pop(0) if self.script else Progress.REST
        self.ended.put_nowait(number)
        if isinstance(step, BaseException):
            raise step
        return step


async def soon(queue: asyncio.Queue[int]) -> int:
    """The next number, within a bounded time."""
    async with asyncio.timeout(60):
        return await queue.get()


async def test_work_is_followed_at_once_and_rest_waits() -> None:
    """AGAIN ticks again without the interval; REST sleeps until the interval or a wake."""
    ticks = Ticks(Progress.AGAIN, Progress.AGAIN, Progress.REST)
    loop = Loop("test", ticks, interval_seconds=LONG)
    loop.start()
    assert [await soon(ticks.ended) for _ in range(3)] == [1, 2, 3]
    for _ in range(20):
        await asyncio.sleep(0)
    assert ticks.count == 3
    loop.wake()
    assert await soon(ticks.ended) == 4
    await loop.stop()


@pytest.mark.parametrize("says", list(Progress))
async def test_a_tick_that_waits_for_nothing_lets_others_have_their_turn(says: Progress) -> None:
    """A loop whose ticks never wait, by their word or because they wake it again, can be told to stop by those who share the event loop."""
    turns = 0

    async def tick() -> Progress:
        nonlocal turns
        turns += 1
        if turns == 10_000:
            raise SystemExit("nobody else has had a turn")
        loop.wake()
        return says

    loop = Loop("test", tick, interval_seconds=LONG)
    loop.start()
    await asyncio.sleep(0)
    await loop.stop()
    assert 0 < turns < 10


async def test_the_interval_brings_the_next_tick() -> None:
    """Without a wake, time alone makes the loop turn."""
    ticks = Ticks()
    loop = Loop("test", ticks, interval_seconds=0.001)
    loop.start()
    assert [await soon(ticks.ended) for _ in range(3)] == [1, 2, 3]
    await loop.stop()


async def test_a_wake_during_a_tick_is_not_lost() -> None:
    """Whatever is announced while a tick is in flight is looked for by the next one."""
    ticks = Ticks()
    ticks.gate.clear()
    loop = Loop("test", ticks, interval_seconds=LONG)
    loop.start()
    assert await soon(ticks.began) == 1
    loop.wake()
    ticks.gate.set()
    assert await soon(ticks.began) == 2
    await loop.stop()


async def test_stop_lets_the_tick_in_flight_finish() -> None:
    """A stop never interrupts a tick, and no other one follows."""
    ticks = Ticks(Progress.AGAIN)
    ticks.gate.clear()
    loop = Loop("test", ticks, interval_seconds=LONG)
    loop.start()
    await soon(ticks.began)
    stopping = asyncio.create_task(loop.stop())
    await asyncio.sleep(0)
    assert loop.running
    assert not stopping.done()
    ticks.gate.set()
    async with asyncio.timeout(60):
        await stopping
    assert await soon(ticks.ended) == 1
    assert ticks.count == 1
    assert not loop.running


async def test_stop_ends_a_rest_at_once() -> None:
    """A sleeping loop need not be waited for."""
    ticks = Ticks()
    loop = Loop("test", ticks, interval_seconds=LONG)
    loop.start()
    await soon(ticks.ended)
    async with asyncio.timeout(60):
        await loop.stop()
    assert ticks.count == 1


async def test_a_loop_that_never_started_stops() -> None:
    """Stopping what does not run is nothing, whatever the order of start-up was."""
    loop = Loop("test", Ticks(), interval_seconds=LONG)
    await loop.stop()
    assert not loop.running


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("one"), asyncio.CancelledError()], ids=["error", "cancelled inside"]
)
async def test_an_error_does_not_end_the_loop(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """A failed tick is logged with its traceback, counted, and the next one comes."""
    ticks = Ticks(error)
    loop = Loop("test", ticks, interval_seconds=LONG)
    loop.start()
    await soon(ticks.ended)
    await until_resting(loop, lambda: loop.errors == 1)
    loop.wake()
    assert await soon(ticks.ended) == 2
    await until_resting(loop, lambda: loop.errors == 0)
    await loop.stop()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


async def test_a_server_that_is_away_is_logged_once_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    """An outage of many ticks is two lines: gone, and back."""
    caplog.set_level(logging.INFO)
    ticks = Ticks(*[ServerUnavailable("no answer")] * 3, Progress.REST)
    loop = Loop("route", ticks, interval_seconds=LONG)
    loop.start()
    for number in range(1, 5):
        assert await soon(ticks.ended) == number
        loop.wake()
    await soon(ticks.ended)
    await loop.stop()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "route: no answer; trying again until it is back"),
        ("INFO", "route: the server is back"),
    ]


async def test_loops_that_share_an_outage_tell_it_once(caplog: pytest.LogCaptureFixture) -> None:
    """Many loops meet one outage: the first tells of it, the last of its end; another server's outage is told beside it."""
    caplog.set_level(logging.INFO)
    ledger = [ServerUnavailable("PostgreSQL is away", server="PostgreSQL") for _ in range(2)]
    ticks = {"beat": Ticks(ledger[0]), "route": Ticks(ledger[1]), "claim": Ticks(ServerUnavailable("Redis is away"))}
    loops = {name: Loop(name, tick, interval_seconds=LONG) for name, tick in ticks.items()}
    share_outages(loops.values())
    for name in ticks:  # all meet it, one after the other, and get through in the same order
        loops[name].start()
        await until_resting(loops[name], lambda name=name: loops[name].away)  # type: ignore[misc]  # mypy has no type for a default of a lambda
    for name in ticks:
        loops[name].wake()
        await until_resting(loops[name], lambda name=name: not loops[name].away)  # type: ignore[misc]  # as above
    await stop_all(list(loops.values()))
    assert caplog.messages == [
        "beat: PostgreSQL is away; trying again until it is back",
        "claim: Redis is away; trying again until it is back",
        "route: the server is back",
        "claim: the server is back",
    ]


async def test_cancelling_the_loop_itself_ends_it() -> None:
    """The end of the event loop is obeyed: only errors of ticks are survived."""
    ticks = Ticks()
    ticks.gate.clear()
    loop = Loop("test", ticks, interval_seconds=LONG)
    loop.start()
    await soon(ticks.began)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "homing:test"]
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled()
    assert not loop.running


@pytest.mark.parametrize("interval", [0.0, 0.5, 15.0])
async def test_waits_after_errors_grow_to_five_seconds(interval: float) -> None:
    """Errors make the waits longer than a moment, never longer than five seconds, and jitter spreads them."""
    loop = Loop("test", Ticks(), interval_seconds=interval)
    bounds: list[float] = []
    for errors in range(1, 40):
        loop.errors = errors
        waits = [loop._rest_seconds() for _ in range(50)]
        assert min(waits) > 0
        assert max(waits) <= MAX_ERROR_WAIT_SECONDS == 5
        assert len(set(waits)) > 1
        bounds.append(max(waits))
    assert bounds[-1] > 4


async def test_the_interval_is_jittered_by_a_tenth() -> None:
    """Processes that started together do not ask together for ever."""
    loop = Loop("test", Ticks(), interval_seconds=10)
    waits = [loop._rest_seconds() for _ in range(200)]
    assert 9 <= min(waits) < max(waits) <= 11


async def test_the_last_tick_is_told_by_the_clock() -> None:
    """Whether the loop still turns can be seen from outside: failed ticks are turns too."""
    clock = ManualClock()
    ticks = Ticks(Progress.REST, ZeroDivisionError("turns"))
    loop = Loop("test", ticks, interval_seconds=LONG, clock=clock)
    assert loop.last_tick == 0
    for expected in (30.0, 60.0):
        clock.advance(timedelta(seconds=30))
        if not loop.running:
            loop.start()
        loop.wake()
        await until_resting(loop, lambda expected=expected: loop.last_tick == expected)  # type: ignore[misc]  # mypy has no type for a default of a lambda
    await loop.stop()


async def test_loops_stop_together() -> None:
    """Stopping many loops takes as long as the slowest, and all have ended."""
    loops = [Loop(f"test{number}", Ticks(), interval_seconds=LONG) for number in range(3)]
    for loop in loops:
        loop.start()
    async with asyncio.timeout(60):
        await stop_all(loops)
    assert not any(loop.running for loop in loops)


async def until_resting(loop: Loop, condition: Callable[[], bool]) -> None:
    """Give the loop turns of the event loop until the condition holds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{loop.name} did not come that far")
