"""The line that every run leaves in the log: what came of it, how long it took, how old its job was."""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from homing.clock import Clock
from homing.config.logs import Mould, log_context, only_writer
from homing.queue.job import ClaimedJob
from homing.queue.outcome import Completed, HeldBack, Outcome, Waiting, outcome_name
from homing.queue.port import Finished, Held
from homing.worker.run import Run
from homing.worker.slot import Plain

log = logging.getLogger("homing.worker")

_MESSAGE = "%s %s in %.3f s, age %.3f s, attempt %d%s%s"
_OF_ONE = frozenset({"job_id", "attempt", "trace_id", "event_id"})
"""The fields that a run does not share with others like it."""

_MOST_MOULDS = 500


class Reporter:
    """Writes the line of a run, in the worker's own process and thread.

    Most of a log record says where it comes from, which is the same for all runs: it is found out once. Where the application has set a
    record factory of its own, every line goes through that one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._common = vars(log.makeRecord(log.name, logging.INFO, __file__, 0, _MESSAGE, (), None, "report"))
        self._began = self._common["created"] - self._common["relativeCreated"] / 1000
        self._moulds: dict[tuple[str, str, str], Mould] = {}

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

    def report_completed(self, done: Sequence[Plain], now: float) -> None:
        """Write the lines of runs that completed together, now (monotonic). Where only our own log hears of them, no records are made."""
        if not log.isEnabledFor(logging.INFO):
            return
        writer = only_writer(log)
        if writer is None:
            for each in done:
                token = log_context.set(each.slot.fields)
                self.report(each.run.job, each.run, Completed(each.result), each.finished, now - each.slot.started)
                log_context.reset(token)
            return
        wall = self._clock.now().timestamp()
        groups: dict[tuple[str, str, str, float], list[Plain]] = defaultdict(list)
        for each in done:
            job = each.run.job
            groups[job.lease.queue, job.name, each.run.consumer, each.slot.started].append(each)
        for (queue, name, consumer, started), group in groups.items():
            mould = self._mould((queue, name, consumer), group[0])
            writer.write(mould, _lines(consumer, group, now - started, wall))

    def _mould(self, alike: tuple[str, str, str], plain: Plain) -> Mould:
        """What the lines of runs like this one share."""
        mould = self._moulds.get(alike)
        if mould is None:
            if len(self._moulds) == _MOST_MOULDS:  # names of jobs are anybody's
                self._moulds.clear()
            common = {name: value for name, value in plain.slot.fields.items() if name not in _OF_ONE}
            mould = self._moulds[alike] = Mould("INFO", log.name, common)
        return mould

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


def _lines(consumer: str, group: Sequence[Plain], seconds: float, wall: float) -> list[Mapping[str, object]]:
    """As `report` makes them, of runs of one handler that were claimed together."""
    took, duration = f"{consumer} completed in {seconds:.3f} s, age ", round(seconds, 6)
    lines: list[Mapping[str, object]] = []
    for each in group:
        run, job, held = each.run, each.run.job, each.finished.held
        age_seconds = wall - job.timestamp_ms / 1000
        lost = "" if held is Held.HELD else f" (lease {held.value})"
        attempt = job.attempt
        lines.append(
            {
                "message": f"{took}{age_seconds:.3f} s, attempt {attempt}{lost}",
                "job_id": job.lease.job_id,
                "attempt": attempt,
                "trace_id": run.trace_id,
                "event_id": run.event_id,
                "outcome": "completed",
                "duration_s": duration,
                "age_s": round(age_seconds, 3),
                "stalls": job.stalls,
                "starts": job.starts,
            }
        )
    return lines
