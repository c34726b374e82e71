"""The line that every run leaves in the log: what came of it, how long it took, how old its job was."""

import logging
import time

from homing.clock import Clock
from homing.queue.job import ClaimedJob
from homing.queue.outcome import Completed, HeldBack, Outcome, Waiting, outcome_name
from homing.queue.port import Finished, Held
from homing.worker.run import Run

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
