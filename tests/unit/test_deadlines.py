"""The ends of attempts: one timer for all, and none is forgotten."""

import asyncio

from homing.worker.deadlines import Deadlines
from tests.waiting import until


class Attempt:
    """Something that may expire."""

    def __init__(self, name: str, expired: list[str]) -> None:
        self.name = name
        self._expired = expired

    def expire(self) -> None:
        self._expired.append(self.name)


async def test_each_expires_once_in_its_turn() -> None:
    """Whatever was begun first: a short time that comes later is over earlier."""
    deadlines, expired = Deadlines(), list[str]()
    long, short, longer = (Attempt(name, expired) for name in ("long", "short", "longer"))
    deadlines.begin(long, 0.2)
    deadlines.begin(short, 0.01)
    deadlines.begin(longer, 0.3)
    await until(lambda: len(expired) == 3)
    assert expired == ["short", "long", "longer"]


async def test_what_has_ended_does_not_expire() -> None:
    """Ended ones in front and between do not hide those that are left."""
    deadlines, expired = Deadlines(), list[str]()
    attempts = [Attempt(str(number), expired) for number in range(5)]
    for attempt in attempts:
        deadlines.begin(attempt, 0.02)
    for attempt in (attempts[0], attempts[1], attempts[3]):
        deadlines.end(attempt, 0.02)
    await until(lambda: len(expired) == 2)
    assert expired == ["2", "4"]
    for attempt in attempts:
        deadlines.end(attempt, 0.02)  # a second time, or after it expired: nothing


async def test_a_thousand_attempts_have_one_timer() -> None:
    """What ends early leaves nothing behind in the loop."""
    loop = asyncio.get_running_loop()
    deadlines, timers = Deadlines(), list[float]()
    call_at = loop.call_at
    loop.call_at = lambda when, *rest, **terms: timers.append(when) or call_at(when, *rest, **terms)  # type: ignore[method-assign,func-returns-value]
    for number in range(1000):
        attempt = Attempt(str(number), [])
        deadlines.begin(attempt, 60)
        deadlines.end(attempt, 60)
    loop.call_at = call_at  # type: ignore[method-assign]
    assert len(timers) == 1
