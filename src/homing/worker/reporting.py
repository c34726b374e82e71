"""The line that every run leaves in the log: what came of it, how long it took, how old its job was."""

import logging
import time
from collections.abc import Sequence

from homing.clock import Clock
from homing.config.logs import Line, log_context, only_writer
from homing.queue.job import ClaimedJob
from homing.queue.outcome import Completed, HeldBack, Outcome, Waiting, outcome_name
from homing.queue.port import Finished, Held
from homing.worker.run import Run
from homing.worker.slot import Done

log = logging.getLogger("homing.worker")

_MESSAGE = "%s %s in %.3f s, age %.3f s, attempt %d%s%s"


class Reporter:
    """Writes the line of a run, in the worker's own process and thread.

    Most of a log record says where it comes from, which is the same for all runs: it is found out once. Where the application has set a
    record factory of its own, every line goes through that one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._common = vars(log.makeRecord(log.name, logging.INFO, __file__, 0, _MESSAGE, (), None, "report"))
        self._began = self._common["created"] - self._common["relativeCreated"] / 1000

    def report(self, job: ClaimedJob, run: Run | None, outcome: Outcome, finished: Finished, seconds: float) -> None:
        """Write one line; `seconds` is how long the run took, its end in the engine included."""
        level = logging.INFO if isinstance(outcome, Completed | HeldBack | Waiting) else logging.WARNING
        if not log.isEnabledFor(level):
            return
        name = outcome_name(outcome)
        age_seconds = self._clock.now().timestamp() - job.timestamp_ms / 1000
        reason = getattr(outcome, "reason", "")
        held = "" if finished.held is Held.HELD else f" (lease {finished.held.value})"
        subject = job.name if run is None else run.consumer
        self._write(
            level,
            (subject, name, seconds, age_seconds, job.attempt, held, f": {reason}" if reason else ""),
            {
                "outcome": name,
                "duration_s": round(seconds, 6),
                "age_s": round(age_seconds, 3),
                "stalls": job.stalls,
                "starts": job.starts,
            },
        )

    def report_completed(self, done: Sequence[Done], now: float) -> None:
        """Write the lines of runs that completed together, now (monotonic). Where only our own log hears of them, no records are made."""
        if not log.isEnabledFor(logging.INFO):
            return
        writer = only_writer(log)
        if writer is None:
            for each in done:
                token = log_context.set(each.slot.fields)
                self.report(each.run.job, each.run, each.outcome, each.finished, now - each.slot.started)
                log_context.reset(token)
            return
        wall = self._clock.now().timestamp()
        writer.write("INFO", log.name, [_line(each, now - each.slot.started, wall) for each in done])

    def _write(self, level: int, values: tuple[object, ...], fields: dict[str, object]) -> None:
        if logging.getLogRecordFactory() is not logging.LogRecord:
            log.log(level, _MESSAGE, *values, extra=fields)
            return
        now = time.time()
        record = logging.LogRecord.__new__(logging.LogRecord)
        record.__dict__ = {
            **self._common,
            "levelno": level,
            "levelname": logging.getLevelName(level),
            "args": values,
            "created": now,
            "msecs": float(int(now % 1 * 1000)),
            "relativeCreated": (now - self._began) * 1000,
            **fields,
        }
        log.handle(record)


def _line(done: Done, seconds: float, wall: float) -> Line:
    """As `report` makes it."""
    job, name, held = done.run.job, done.outcome.how, done.finished.held
    age_seconds = wall - job.timestamp_ms / 1000
    lost = "" if held is Held.HELD else f" (lease {held.value})"
    message = f"{done.run.consumer} {name} in {seconds:.3f} s, age {age_seconds:.3f} s, attempt {job.attempt}{lost}"
    own = {
        "outcome": name,
        "duration_s": round(seconds, 6),
        "age_s": round(age_seconds, 3),
        "stalls": job.stalls,
        "starts": job.starts,
    }
    return Line(message, {**done.slot.fields, **own})
