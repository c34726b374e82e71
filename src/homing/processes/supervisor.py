"""`homing worker --processes N`: starts workers, replaces those that die, and stops all of them together. Correct as PID 1.

Each worker is a `homing` process of its own, started afresh and never forked: it inherits no socket, no thread and no lock. A worker
takes orders from its stdin alone and ignores SIGTERM and SIGINT, which a terminal or a service manager sends to every process: the
supervisor hears them too, and passes them on once. A supervisor that is killed closes the pipes, and its workers stop in good order.
"""

import logging
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from homing.clock import Clock, SystemClock
from homing.config.settings import Settings
from homing.processes.crew import crew_shown
from homing.processes.endpoint import where
from homing.processes.plan import StopPlan
from homing.processes.reports import FOLDER
from homing.processes.signals import HARD_STOP, ORDER_TO_STOP, STOP_SIGNALS, woken_by_signals

log = logging.getLogger("homing.supervisor")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A worker that lived so long had a good start: its death is no repetition of the one before."""

REPORTING_SECONDS = 2.0
"""How long after its own hard end a worker may still be there, before the supervisor kills it."""

HOPELESS = frozenset({2, 3, 4})
"""Exit codes that, at the first start of a worker, end everything: usage, configuration, servers. Starting again would not mend them."""


class Place:
    """One of the N workers: the process that fills it now, or the time when the next one does."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self.starts = 0
        self.due_at = 0.0
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id, while it lives."""
        return None if self._process is None else self._process.pid

    def start(self, now: float, environment: Mapping[str, str]) -> None:
        """Start a worker, with the stop signals blocked until it has put its own handlers in place."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=environment)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.starts += 1
        self.started_at = now

    def exit_code(self) -> int | None:
        """The code of a worker that has ended and was not taken note of; for whoever does not reap all children alike."""
        return None if self._process is None else self._process.poll()

    def ended(self, code: int, now: float) -> float:
        """Take note of the worker's end; the pause before the next one, in seconds."""
        if self._process is not None:
            self._process.returncode = code  # it was reaped here, not by its object
            self._close_orders(self._process)
            self._process = None
        self._failures = 1 if now - self.started_at >= STEADY_SECONDS else self._failures + 1
        pause_seconds = pause_after(self._failures)
        self.due_at = now + pause_seconds
        return pause_seconds

    def order_stop(self, order: bytes = ORDER_TO_STOP) -> None:
        """Tell the worker to stop in good order."""
        if self._process is None or self._process.stdin is None:
            return
        with suppress(BrokenPipeError):  # it has ended, and will be reaped
            self._process.stdin.write(order)
            self._process.stdin.flush()

    def kill(self) -> None:
        """End the worker without a word; it leaves its jobs to others."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)  # it was not reaped yet, so that the number is still its own

    @staticmethod
    def _close_orders(process: subprocess.Popen[bytes]) -> None:
        with suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.close()


class Supervisor:
    """Keeps every place filled until it is told to stop. `patience_seconds`: how long a stop may take before what is left is killed."""

    def __init__(
        self, commands: Sequence[Sequence[str]], *, patience_seconds: float, clock: Clock | None = None
    ) -> None:
        self._places = [Place(number, command) for number, command in enumerate(commands, 1)]
        self._patience_seconds = patience_seconds
        self._clock = clock or SystemClock()
        self._environment = dict(os.environ)
        self._on_end: Callable[[int], None] = lambda _: None
        self._signals: list[int] = []
        self._kill_at: float | None = None
        self._killed = False
        self._worst = 0
        self._hopeless = 0

    @property
    def places(self) -> Sequence[Place]:
        """The places, in order; any thread may look at them."""
        return self._places

    def show_in(self, folder: Path, on_end: Callable[[int], None]) -> None:
        """Let workers that start from now on report in a folder; `on_end` is called with the process id of each that has ended."""
        self._environment[FOLDER] = str(folder)
        self._on_end = on_end

    def run(self) -> int:
        """Run until a stop has ended; the exit code: 0, or that of the worker that ended worst, or of a hopeless start."""
        with woken_by_signals(self._signals.append) as wakeup:
            while True:
                now = self._clock.monotonic()
                self._reap(now)
                self._obey(now)
                if self._kill_at is not None and not self._alive:
                    break
                self._fill(now)
                self._sleep(wakeup, now)
        log.info("stopped")
        return self._code()

    @property
    def _alive(self) -> list[Place]:
        return [place for place in self._places if place.pid is not None]

    # ── Deaths ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reap(self, now: float) -> None:
        """Take every child that has ended, the orphans that a PID 1 inherits included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for place in self._alive:
                if place.pid == pid:
                    self._note_end(place, os.waitstatus_to_exitcode(status), now)

    def _note_end(self, place: Place, code: int, now: float) -> None:
        pid = place.pid
        pause_seconds = place.ended(code, now)
        if pid is not None:
            self._on_end(pid)
        if self._kill_at is not None:
            log.info("worker %d (process %d) ended with %d", place.number, pid, code)
            if not self._killed:  # otherwise it was ours, and counts as a hard stop already
                self._worst = max(self._worst, shell_code(code))
        elif place.starts == 1 and code in HOPELESS:
            log.error("worker %d (process %d) cannot start, code %d: the supervisor ends", place.number, pid, code)
            self._hopeless = code
            self._stop(now)
        else:
            log.error(
                "worker %d (process %d) ended with %d; the next one starts in %g s",
                place.number,
                pid,
                code,
                pause_seconds,
            )

    def _fill(self, now: float) -> None:
        if self._kill_at is not None:
            return
        for place in self._places:
            if place.pid is None and place.due_at <= now:
                place.start(now, self._environment)
                log.info("worker %d is process %d, start %d", place.number, place.pid, place.starts)

    # ── Stopping ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _obey(self, now: float) -> None:
        if self._signals and self._kill_at is None:
            log.info("%s: stopping", signal.Signals(self._signals[0]).name)
            self._stop(now)
        late = self._kill_at is not None and self._kill_at <= now
        if (late or len(self._signals) > 1) and not self._killed:
            self._killed = True
            for place in self._alive:
                log.error("worker %d (process %d) is killed; its jobs are left to others", place.number, place.pid)
                place.kill()
            self._worst = max(self._worst, HARD_STOP)

    def _stop(self, now: float) -> None:
        self._kill_at = now + self._patience_seconds
        for place in self._alive:
            place.order_stop()

    def _code(self) -> int:
        if len(self._signals) > 1:
            return 128 + self._signals[-1]
        return self._hopeless or self._worst

    # ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _sleep(self, wakeup: int, now: float) -> None:
        """Until a signal comes, a child's death included, or something is due."""
        due = [place.due_at for place in self._places if place.pid is None]
        if self._kill_at is not None:
            due = [] if self._killed else [self._kill_at]
        timeout = max(0.0, min(due) - now) if due else None
        if select.select([wakeup], [], [], timeout)[0]:
            os.read(wakeup, 4096)


def supervise(commands: Sequence[Sequence[str]], settings: Settings) -> int:
    """Run one worker for each command until SIGTERM or SIGINT, and return the exit code."""
    plan = StopPlan(settings.shutdown_grace.total_seconds())
    supervisor = Supervisor(commands, patience_seconds=plan.longest_seconds + REPORTING_SECONDS)
    with crew_shown(supervisor, settings) as address:
        plan.announce(f"supervisor of {len(commands)} workers; one that dies is replaced{where(address)}")
        return supervisor.run()


def pause_after(failures: int) -> float:
    """Seconds before a worker is started again that has died so often in a row."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE_SECONDS)


def shell_code(code: int) -> int:
    """An exit code as a shell would report it: 128 and the signal's number for a process that a signal ended."""
    return 128 - code if code < 0 else code
