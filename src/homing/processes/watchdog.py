"""A thread that sees whether the event loop turns, and whether every background loop on it does; it ends a process that cannot work."""

import asyncio
import logging
import math
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import PurePath

from homing.clock import Clock, SystemClock
from homing.service import Loop

log = logging.getLogger("homing.watchdog")

LOOK_SECONDS = 0.5
"""The pause between two looks: what an idle process pays is two wake-ups a second."""

BLOCKED_SECONDS = 1.0
"""How long the event loop may not turn before it counts as blocked."""

END_AFTER_SECONDS = 60.0
"""How long a loop may be dead or stuck, once that was seen, before the process ends."""

_TURNS = (("events.py", "_run"), ("runners.py", "run"))
"""What calls a callback of the event loop: asyncio's handle, or its runner where the loop between them is no Python code (uvloop)."""


class Watchdog:
    """Watches one event loop and the loops on it, from a thread of its own, so that nothing that happens there can stop it.

    A blocked event loop is told once, with the stack that blocks it, and again when it turns; for `patience_seconds` leases are renewed
    and nothing is lost, after that `end` is called. A dead or stuck loop is told once; after `END_AFTER_SECONDS` `end` is called.
    Silence of a loop while the event loop was blocked, or the process frozen, is not that loop's fault and is not counted.
    """

    def __init__(
        self,
        loops: Sequence[Loop],
        *,
        end: Callable[[], object],
        patience_seconds: float,
        describe: Callable[[str], str | None] = lambda _: None,
        blocked_seconds: float = BLOCKED_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._loops = loops
        self._end = end
        self.patience_seconds = patience_seconds
        self._describe = describe
        self._blocked_seconds = blocked_seconds
        self._clock = clock or SystemClock()
        self._event_loop = asyncio.get_running_loop()
        self._watched_thread = threading.get_ident()
        self.awake_since = -math.inf
        """No loop is blamed for silence before this moment (monotonic): the event loop was blocked, or the process frozen."""
        self._troubled_since: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="homing-watchdog", daemon=True)
        self.blockages = 0
        """How often the event loop was blocked."""
        self.blocked_since: float | None = None
        """When the present blockage began (monotonic); `None` while the event loop turns."""

    def start(self) -> None:
        """Begin to watch; the loops have started."""
        self._thread.start()

    async def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        looked_at = self._clock.monotonic()
        while not self._stopping.wait(LOOK_SECONDS):
            now = self._clock.monotonic()
            if (
                now - looked_at > LOOK_SECONDS + self._blocked_seconds
            ):  # frozen: everything here was, not one loop alone
                self.awake_since = now
            try:
                self._wait_for_a_turn(now)
                self.judge(self._clock.monotonic())
            except Exception:  # a mistake of ours must not end the thread: nobody watches this one
                log.exception("the watchdog failed; it goes on")
            looked_at = self._clock.monotonic()

    # ── The event loop ──────────────────────────────────────────────────────────────────────────────────────────────

    def _wait_for_a_turn(self, asked_at: float) -> None:
        turned = threading.Event()
        try:
            self._event_loop.call_soon_threadsafe(turned.set)
        except RuntimeError:  # closed: the process ends
            self._stopping.set()
            return
        if turned.wait(self._blocked_seconds) or self._stopping.is_set():
            return
        self.blockages += 1
        self.blocked_since = asked_at
        self._report_blockage()
        waited_seconds = self._blocked_seconds  # counted look by look: a process that was frozen meanwhile did not wait
        while not turned.wait(LOOK_SECONDS):
            if self._stopping.is_set():
                return
            waited_seconds += LOOK_SECONDS
            if waited_seconds > self.patience_seconds:
                log.error("the event loop has not turned for %g s: the process ends", self.patience_seconds)
                self._end()
        now = self._clock.monotonic()
        self.blocked_since = None
        self.awake_since = now
        log.warning("the event loop turns again; it was blocked for %.1f s", now - asked_at)

    def _report_blockage(self) -> None:
        task = asyncio.current_task(self._event_loop)
        name = "" if task is None else task.get_name()
        log.error(
            "the event loop has not turned for %g s: %s blocks it, at\n%s",
            self._blocked_seconds,
            self._describe(name) or name or "a callback",
            _stack_of(self._watched_thread),
        )

    # ── The loops on it ─────────────────────────────────────────────────────────────────────────────────────────────

    def judge(self, now: float) -> None:
        """Say what is wrong at `now` (monotonic), once; end the process when it stays so."""
        found = [turning for loop in self._loops if (turning := loop.look(now, self.awake_since)).trouble]
        for name in self._troubled_since.keys() - {turning.name for turning in found}:
            del self._troubled_since[name]
            log.warning("the loop %s turns again", name)
        for turning in found:
            if turning.name not in self._troubled_since:
                self._troubled_since[turning.name] = now
                log.error("%s; unless it turns again, the process ends in %g s", turning.trouble, END_AFTER_SECONDS)
            elif now - self._troubled_since[turning.name] > END_AFTER_SECONDS:
                log.error("%s for %g s: the process ends", turning.trouble, END_AFTER_SECONDS)
                self._end()


def _stack_of(thread: int) -> str:
    """Where a thread stands, from the callback that the event loop runs down to the line that blocks."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to see another thread's stack
    if frame is None:
        return "  (the thread is gone)\n"
    frames = traceback.StackSummary.extract(traceback.walk_stack(frame))
    frames.reverse()
    turns = [at for at, line in enumerate(frames) if (PurePath(line.filename).name, line.name) in _TURNS]
    return "".join(traceback.format_list(frames[turns[-1] + 1 :] if turns else frames))
