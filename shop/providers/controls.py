"""The knobs at work: turning calls away, holding them, letting them go."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal

from shop.providers.knobs import Aftermath, Dice, Knobs
from shop.providers.rate import SlidingWindow

Hold = Literal["hang", "hang_after_effect"]


class ThrottledError(Exception):
    """The caller used up this second; `retry_after_seconds` is whole and at least 1."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(f"too many calls, again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class TurnedAwayError(Exception):
    """A knob refused the call before anything happened."""

    def __init__(self, status: int | None, retry_after_seconds: int | None) -> None:
        super().__init__(f"refused with {status}")
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class CallerGoneError(Exception):
    """A held call ended without an answer: its caller left, or the provider is stopping."""


async def never() -> None:
    """Wait for ever: for callers whose leaving cancels the task instead."""
    await asyncio.Event().wait()


class Controls:
    """One provider's knobs, dice, limits and held calls; belongs to one event loop.

    `monotonic` is in seconds and drives the rate limit, `sleep` the latency; tests may hand in their own.
    """

    def __init__(
        self,
        knobs: Knobs,
        operations: Collection[str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.operations = tuple(operations)
        self.injected: Counter[str] = Counter()
        self._initial = knobs.turned({}, self.operations)
        self._dice = Dice(self._initial)
        self._monotonic = monotonic
        self._sleep = sleep
        self._windows: dict[str, SlidingWindow] = {}
        self._gates: dict[Hold, asyncio.Event] = {"hang": asyncio.Event(), "hang_after_effect": asyncio.Event()}
        self._closing = False
        self._held = 0
        self._held_changed = asyncio.Condition()

    @property
    def knobs(self) -> Knobs:
        return self._dice.knobs

    @property
    def held(self) -> int:
        """How many calls hang right now."""
        return self._held

    def turn(self, changes: Mapping[str, Any]) -> Knobs:
        """Apply some knobs and keep the rest; a hang that is turned off lets its held calls go on. Raises `KnobError`."""
        knobs = self.knobs.turned(changes, self.operations)
        if "seed" in changes:
            self._dice = Dice(knobs)
        self._dice.knobs = knobs
        for hold in self._gates:
            if hold in changes and not changes[hold]:
                self._open(hold)
        return knobs

    def reset(self) -> Knobs:
        """Go back to the knobs of the start, dice and counters included, and let held calls go on."""
        self._dice = Dice(self._initial)
        self.injected.clear()
        self.release()
        return self.knobs

    def release(self) -> None:
        """Let every held call go on and turn both hangs off."""
        self.turn({"hang": False, "hang_after_effect": False})

    def close(self) -> None:
        """End every held call without an answer, because the provider stops."""
        self._closing = True
        for hold in self._gates:
            self._open(hold)

    async def arrive(self, operation: str, caller: str, gone: Callable[[], Awaitable[object]]) -> None:
        """Meet a call at the door: limit, hang, refusal. `gone` returns once the caller hung up.

        Raises `ThrottledError`, `TurnedAwayError` or `CallerGoneError`; nothing has happened then.
        """
        self._throttle(caller)
        arrival = self._dice.arrival(operation)
        if arrival.hang:
            await self.hold("hang", gone)
        if arrival.refuse:
            self.injected["refused"] += 1
            raise TurnedAwayError(self.knobs.refuse_status, self.knobs.retry_after_seconds)

    async def delay(self, operation: str) -> None:
        """Take the time that the latency knob asks for."""
        if self.knobs.latency_ms and self.knobs.concerns(operation):
            await self._sleep(self.knobs.latency_ms / 1000)

    def aftermath(self, operation: str) -> Aftermath:
        """Decide what happens to the answer of a call that just had its effect."""
        aftermath = self._dice.aftermath(operation)
        if aftermath.fail:
            self.injected["failed_after_effect"] += 1
        return aftermath

    async def hold(self, hold: Hold, gone: Callable[[], Awaitable[object]]) -> None:
        """Keep a call waiting until it is released; `CallerGoneError` if its caller leaves first."""
        self.injected[hold] += 1
        await self._count_held(+1)
        waits = [asyncio.ensure_future(self._gates[hold].wait()), asyncio.ensure_future(gone())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            released = waits[0].done() and not self._closing
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            await self._count_held(-1)
        if not released:
            raise CallerGoneError

    async def wait_until_held(self, calls: int, timeout_seconds: float) -> bool:
        """Return True once exactly that many calls hang (0: none any more), False after the time-out."""
        try:
            async with asyncio.timeout(timeout_seconds), self._held_changed:
                await self._held_changed.wait_for(lambda: self._held == calls)
        except TimeoutError:
            return False
        return True

    async def _count_held(self, change: int) -> None:
        self._held += change
        async with self._held_changed:
            self._held_changed.notify_all()

    def _throttle(self, caller: str) -> None:
        if self.knobs.throttle is None:
            return
        window = self._windows.setdefault(caller, SlidingWindow())
        retry_after_seconds = window.admit(self._monotonic(), self.knobs.throttle)
        if retry_after_seconds is not None:
            self.injected["throttled"] += 1
            raise ThrottledError(retry_after_seconds)

    def _open(self, hold: Hold) -> None:
        self._gates[hold].set()
        if not self._closing:
            self._gates[hold] = asyncio.Event()
