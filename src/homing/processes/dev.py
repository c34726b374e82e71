"""`homing dev`: one worker, its relay with it, that is started again whenever the code of the app has changed."""

import logging
import os
import select
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from homing.clock import Clock, SystemClock
from homing.processes.dev_sources import Sources, roots_of
from homing.processes.plan import StopPlan
from homing.processes.signals import (
    HARD_STOP,
    ORDER_TO_STOP_SOON,
    SOON_SECONDS,
    STUCK,
    woken_by_signals,
)
from homing.processes.supervisor import REPORTING_SECONDS, Place, shell_code

log = logging.getLogger("homing.dev")

LOOK_SECONDS = 0.25
"""How often files are looked at."""

LOOK_SHARE = 10
"""After a look that took long, so many times as long passes until the next one."""

NO_SERVER = 4
SHOWN_FILES = 3


class Developing:
    """Keeps one worker running on the newest code until it is told to stop; without `sources` no change is looked for.

    The worker is a child that obeys the pipe at its stdin. Before each new start the old one is told to stop soon: runs that do not end
    within a second are given back and spend no attempt. When this process is killed, the pipe ends, and the worker stops in good order.
    `beside` is the command of a process that shows what runs: no change of the app starts it again, and its end ends nothing else.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        sources: Sources | None,
        clock: Clock | None = None,
        *,
        beside: Sequence[str] | None = None,
    ) -> None:
        self._worker = Place(1, command)
        self._beside = None if beside is None else Place(2, beside)
        self._environment = environment
        self._sources = sources
        self._clock = clock or SystemClock()
        self._patience_seconds = StopPlan(SOON_SECONDS).longest_seconds + REPORTING_SECONDS
        self._signals: list[int] = []
        self._start_at: float | None = self._clock.monotonic()
        self._look_at = 0.0
        self._kill_at: float | None = None
        self._stopping = False
        self._leaving = False
        self._code = 0

    def run(self) -> int:
        """Run until a stop has ended; the exit code: 0, 75 where the worker had to be killed, 130 or 143 after a second signal."""
        with woken_by_signals(self._signals.append) as wakeup:
            if self._beside is not None:
                self._beside.start(self._clock.monotonic(), self._environment)
            while True:
                now = self._clock.monotonic()
                self._note_end(now)
                self._note_end_beside(now)
                self._obey(now)
                if self._leaving and self._worker.pid is None:
                    break
                self._look(now)
                self._start(now)
                self._sleep(wakeup)
        self._end_beside()
        return 128 + self._signals[-1] if len(self._signals) > 1 else self._code

    # ── The worker ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, now: float) -> None:
        if not self._leaving and self._worker.pid is None and self._start_at is not None and self._start_at <= now:
            self._worker.start(now, self._environment)

    def _note_end(self, now: float) -> None:
        code = self._worker.exit_code()
        if code is None:
            return
        pause_seconds = self._worker.ended(code, now)
        expected, self._stopping, self._kill_at = self._stopping, False, None
        if self._leaving:
            self._code = self._code or shell_code(code)
        elif expected:
            self._start_at = now
        elif may_pass(code):
            self._start_at = now + pause_seconds
            log.error("the worker ended with %d; the next one starts in %g s", code, pause_seconds)
        elif self._sources is not None:
            self._start_at = None
            log.error("the worker ended with %d: it starts again when a file has changed", code)
        else:
            self._leaving, self._code = True, shell_code(code)

    def _stop(self, now: float) -> None:
        if self._worker.pid is not None and not self._stopping:
            self._stopping, self._kill_at = True, now + self._patience_seconds
            self._worker.order_stop(ORDER_TO_STOP_SOON)

    # ── What stands beside it ───────────────────────────────────────────────────────────────────────────────────────

    def _note_end_beside(self, now: float) -> None:
        if self._beside is not None and (code := self._beside.exit_code()) is not None:
            self._beside.ended(code, now)
            self._beside = None
            if not self._leaving:
                log.warning("the dashboard ended with %d and is not started again; everything else goes on", code)

    def _end_beside(self) -> None:
        """Nothing of it is worth waiting for."""
        if self._beside is not None:
            self._beside.kill()
            self._beside = None

    # ── What comes from outside ─────────────────────────────────────────────────────────────────────────────────────

    def _obey(self, now: float) -> None:
        if self._signals and not self._leaving:
            self._leaving = True
            log.info("%s: stopping", signal.Signals(self._signals[0]).name)
            self._stop(now)
        if self._worker.pid is not None and (len(self._signals) > 1 or (self._kill_at or now + 1) <= now):
            log.error("the worker does not end and is killed; its jobs run again when their leases have ended")
            self._code, self._kill_at = HARD_STOP if self._leaving else 0, None
            self._worker.kill()

    def _look(self, now: float) -> None:
        if self._sources is None or self._leaving or now < self._look_at:
            return
        changed = self._sources.changed()
        ended = self._clock.monotonic()
        self._look_at = ended + max(LOOK_SECONDS, LOOK_SHARE * (ended - now))
        if changed:
            log.info("%s changed: the worker starts again, running jobs are given back", name_files(changed))
            self._start_at = now
            self._stop(now)

    def _sleep(self, wakeup: int) -> None:
        """Until a signal comes, the worker's end included, or something is due."""
        due = [] if self._kill_at is None else [self._kill_at]
        if self._sources is not None and not self._leaving:
            due.append(self._look_at)
        if self._worker.pid is None and self._start_at is not None:
            due.append(self._start_at)
        timeout = max(0.0, min(due) - self._clock.monotonic()) if due else None
        if select.select([wakeup], [], [], timeout)[0]:
            os.read(wakeup, 4096)


def develop(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    module: str,
    reload: bool,
    beside: Sequence[str] | None = None,
) -> int:
    """Run the worker of `command` until SIGINT or SIGTERM, `reload`ed when a file of the app in `module` changes; the exit code.

    `beside`: the command of the dashboard, which ends with it.
    """
    sources = Sources(roots_of(module)) if reload else None
    return Developing(command, environment, sources, beside=beside).run()


def may_pass(code: int) -> bool:
    """Whether the same code may well run when it is started again: a signal ended it, it was stuck, or a server was away."""
    return code < 0 or code in (HARD_STOP, STUCK, NO_SERVER)


def name_files(paths: Sequence[str]) -> str:
    """The first few, as seen from the working directory, and how many more."""
    here = Path.cwd()
    names = [str(path.relative_to(here)) if (path := Path(each)).is_relative_to(here) else each for each in paths]
    more = len(names) - SHOWN_FILES
    return ", ".join(names[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
