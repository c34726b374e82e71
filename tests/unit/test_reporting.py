"""The line of a run: a record like any other, made the short way unless the application has a say in records."""

import logging

import pytest

from homing.clock import SystemClock
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Completed, Dead
from homing.queue.port import Finished, Held
from homing.worker.reporting import Reporter

JOB = ClaimedJob(
    lease=Lease("mail", JobId("17"), LeaseToken("t")),
    name="send",
    data="{}",
    timestamp_ms=0,
    attempts=1,
    starts=2,
    attempts_made=0,
)


def test_the_short_way_leads_to_the_same_record(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a handler may read from a record of `logging`, this one has, with the same meaning."""
    caplog.set_level(logging.INFO, "homing.worker")
    reporter = Reporter(SystemClock())
    reporter.report(JOB, None, Dead("no such address"), Finished(Held.MISSING), 0.25)
    (record,) = caplog.records
    ordinary = logging.makeLogRecord({})
    assert vars(ordinary).keys() <= vars(record).keys()
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("send dead in 0.250 s, age ")
    assert record.getMessage().endswith(" s, attempt 1 (lease missing): no such address")
    assert vars(record)["starts"] == 2
    for field in ("process", "thread", "threadName", "processName"):
        assert getattr(record, field) == getattr(ordinary, field)
    assert 0 <= ordinary.created - record.created < 10
    assert record.relativeCreated == pytest.approx(ordinary.relativeCreated, abs=10_000)


def test_an_application_that_makes_its_own_records_makes_these_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record factory, as tracing tools set one, sees the line of every run."""
    caplog.set_level(logging.INFO, "homing.worker")
    reporter = Reporter(SystemClock())

    class Marked(logging.LogRecord):
        mark = "seen"

    monkeypatch.setattr(logging, "_logRecordFactory", Marked)
    reporter.report(JOB, None, Completed(), Finished(Held.HELD), 0.25)
    (record,) = caplog.records
    assert isinstance(record, Marked)
    assert vars(record)["outcome"] == "completed"
