"""The watchdog: a blocked event loop is told with its stack, a dead or stuck loop ends the process, and nobody is blamed for another."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from homing.clock import ManualClock
from homing.processes import watchdog as module
from homing.processes.watchdog import END_AFTER_SECONDS, Watchdog
from homing.service import MAX_ERROR_WAIT_SECONDS, Loop, Progress
from tests.waiting import until, wait_until

NEVER = 3600.0


async def rest() -> Progress:
    return Progress.REST


async def hang() -> Progress:
    await asyncio.Event().wait()
    return Progress.REST


def loop_with(tick: Callable[[], Awaitable[Progress]], clock: ManualClock, name: str = "claim") -> Loop:
    return Loop(name, tick, interval_seconds=1, patience_seconds=60, clock=clock)


def watching(*loops: Loop, clock: ManualClock) -> tuple[Watchdog, list[float]]:
    """A watchdog whose thread does not run, and the times at which it ended the process."""
    ends: list[float] = []
    return Watchdog(loops, end=lambda: ends.append(clock.monotonic()), patience_seconds=NEVER, clock=clock), ends


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "homing.watchdog"]


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("quick_looks")
async def test_blocked_event_loop_is_told_once_with_the_line_that_blocks(caplog: pytest.LogCaptureFixture) -> None:
    """One blockage is two lines: who blocks and where, and for how long it was; then the next one is told too. What a busy machine adds is another one."""
    caplog.set_level(logging.INFO)
    dog = Watchdog(
        [], end=lambda: None, patience_seconds=NEVER, blocked_seconds=0.05, describe=lambda name: f"<{name}>"
    )
    dog.start()

    def of_the_handler() -> list[int]:
        return [at for at, line in enumerate(told(caplog)) if "<run:17> blocks it" in line]

    for number in (1, 2):

        async def a_handler_that_blocks(number: int = number) -> None:
            wait_until(lambda: len(of_the_handler()) == number, what="it was noticed")

        await asyncio.create_task(a_handler_that_blocks(), name="run:17")
        await until(lambda: dog.blocked_since is None and len(told(caplog)) % 2 == 0, what="its end was told")
    await dog.stop()
    first, second = of_the_handler()
    blocked, again = told(caplog)[first : first + 2]
    assert blocked.startswith("the event loop has not turned for 0.05 s: <run:17> blocks it, at\n")
    assert "in a_handler_that_blocks\n" in blocked
    assert "run_until_complete" not in blocked
    assert again.startswith("the event loop turns again; it was blocked for ")
    assert told(caplog)[second + 1].startswith("the event loop turns again; it was blocked for ")
    assert dog.blockages >= 2


@pytest.mark.usefixtures("quick_looks")
async def test_event_loop_blocked_for_longer_than_its_patience_ends_the_process() -> None:
    """What the event loop cannot do any more the thread does: it ends the process."""
    ends: list[str] = []
    dog = Watchdog([], end=lambda: ends.append("end"), patience_seconds=0.1, blocked_seconds=0.05)
    dog.start()
    wait_until(lambda: ends, what="the process ends")
    await dog.stop()


@pytest.mark.usefixtures("quick_looks")
async def test_event_loop_that_turns_is_left_in_peace(caplog: pytest.LogCaptureFixture) -> None:
    """Many looks at a working process say nothing."""
    looks: list[float] = []

    class Counting(Watchdog):
        def judge(self, now: float) -> None:
            looks.append(now)
            super().judge(now)

    dog = Counting([], end=lambda: None, patience_seconds=NEVER, blocked_seconds=5)
    dog.start()
    await until(lambda: len(looks) >= 5, what="five looks")
    await dog.stop()
    assert told(caplog) == []
    assert dog.blockages == 0


async def test_dead_loop_is_told_once_and_ends_the_process_in_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """A loop whose task is gone is one line, and the end after the bound; not before."""
    clock = ManualClock()
    loop = loop_with(hang, clock)
    loop.start()
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "homing:claim"]
    task.cancel()
    await asyncio.wait({task})
    dog, ends = watching(loop, clock=clock)
    for _ in range(int(END_AFTER_SECONDS)):
        dog.judge(clock.monotonic())
        clock.advance(timedelta(seconds=1))
    dog.judge(clock.monotonic())
    assert ends == []
    assert told(caplog) == ["the loop claim is dead; unless it turns again, the process ends in 60 s"]
    clock.advance(timedelta(seconds=1))
    dog.judge(clock.monotonic())
    assert ends == [END_AFTER_SECONDS + 1]
    await loop.stop()


async def test_stuck_loop_is_told_only_beyond_its_longest_wait(caplog: pytest.LogCaptureFixture) -> None:
    """Rest and patience are legitimate; one second more is not, and a turn puts it right."""
    clock = ManualClock()
    gate = asyncio.Event()

    async def wait() -> Progress:
        await gate.wait()
        return Progress.REST

    loop = loop_with(wait, clock)
    loop.start()
    dog, ends = watching(loop, clock=clock)
    clock.advance(timedelta(seconds=60 + MAX_ERROR_WAIT_SECONDS))
    dog.judge(clock.monotonic())
    assert told(caplog) == []
    clock.advance(timedelta(seconds=1))
    dog.judge(clock.monotonic())
    (line,) = told(caplog)
    assert line.startswith("the loop claim is stuck: it has not turned within 65 s")
    gate.set()
    await until(lambda: loop.last_tick == clock.monotonic(), what="it turned")
    dog.judge(clock.monotonic())
    assert told(caplog)[1:] == ["the loop claim turns again"]
    clock.advance(timedelta(seconds=END_AFTER_SECONDS))
    dog.judge(clock.monotonic())
    assert ends == []
    await loop.stop()


async def test_silence_while_everything_stood_still_is_no_loops_fault() -> None:
    """After a long blockage or a freeze each loop has its whole bound again."""
    clock = ManualClock()
    loop = loop_with(hang, clock)
    loop.start()
    clock.advance(timedelta(seconds=1000))
    now = clock.monotonic()
    assert loop.look(now).trouble is not None
    assert loop.look(now, awake_since=now - 1).trouble is None
    assert loop.look(now, awake_since=now - 66).trouble is not None
    await loop.stop(0)


async def test_loop_that_was_not_started_or_was_stopped_is_in_no_trouble() -> None:
    """Only what should turn is blamed for not turning."""
    clock = ManualClock()
    loop = loop_with(rest, clock)
    clock.advance(timedelta(seconds=1000))
    assert loop.look(clock.monotonic(), -math.inf).trouble is None
    loop.start()
    await loop.stop()
    clock.advance(timedelta(seconds=1000))
    assert loop.look(clock.monotonic()).trouble is None


async def test_stop_breaks_off_a_tick_that_does_not_end(caplog: pytest.LogCaptureFixture) -> None:
    """A stuck tick cannot hold up a stop for ever."""
    loop = loop_with(hang, ManualClock())
    loop.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await loop.stop(within_seconds=0.01)
    assert not loop.running
    assert "is broken off" in caplog.text
