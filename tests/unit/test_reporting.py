"""The line of a run: a record like any other, made the short way unless the application has a say in records."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from homing.clock import ManualClock, SystemClock
from homing.config.logs import LogFormat, configure_logging
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Completed, Dead
from homing.queue.port import Finished, Held
from homing.worker.reporting import Reporter
from homing.worker.slot import Plain, Slot

EVENT_ID = UUID("0190163d-8694-739b-aea5-966c26f8ad91")
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


@contextmanager
def own_log(log_format: LogFormat = "json") -> Iterator[io.StringIO]:
    """A log that nobody hears but Homing's own writer."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    configure_logging("INFO", log_format, stream)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def done(job_id: str, held: Held = Held.HELD) -> Plain:
    """A run that has completed; nothing of it is looked at here but its name and its job."""
    job = replace(JOB, lease=replace(JOB.lease, job_id=JobId(job_id)))
    names = {"consumer": "mail.send", "trace_id": "4bf9"}
    run: Any = SimpleNamespace(job=job, event_id=EVENT_ID, **names)
    owner: Any = None
    fields = {"app": "100 %s shop", "job_id": job_id, "attempt": 1, "event_id": str(EVENT_ID), **names}
    plain = Plain(Slot(job, owner, 1.0, fields=fields), run)
    plain.finished = Finished(held)
    return plain


class Heard(logging.Handler):
    """A handler of the application's own."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_lines_of_a_group_are_those_of_its_runs() -> None:
    """Written together without records where nobody else hears them, or one by one: the same lines, each with its own fields."""
    ids = ["a", "b\n\x1b", 'say "%s"', "jäger", "\x7f", "\ud800", "postgresql://user:secret@host/db"]
    group, reporter, heard = (
        [done(ids[0]), done(ids[1], Held.MISSING), *map(done, ids[2:])],
        Reporter(ManualClock()),
        Heard(),
    )
    with own_log() as stream:
        reporter.report_completed(group, 1.25)
        together = stream.getvalue()
        logging.getLogger("homing.worker").addHandler(heard)
        reporter.report_completed(group, 1.25)
        logging.getLogger("homing.worker").removeHandler(heard)
        one_by_one = stream.getvalue().removeprefix(together)
    assert len(heard.records) == len(ids)
    lines, others = ([json.loads(line) for line in text.splitlines()] for text in (together, one_by_one))
    for line in lines + others:
        assert line.pop("time").endswith("+00:00")
    assert lines == others
    assert [line["job_id"] for line in lines[:-1]] == ids[:-1]
    assert "secret" not in together
    assert all(line.isprintable() for line in together.splitlines())
    assert lines[0]["message"].startswith("mail.send completed in 0.250 s, age ")
    assert lines[1]["message"].endswith(" (lease missing)")


def test_a_level_above_info_costs_no_line() -> None:
    """Whoever asked for warnings only gets none of these."""
    with own_log() as stream:
        logging.getLogger().setLevel("WARNING")
        Reporter(SystemClock()).report_completed([done("a")], 2.0)
    assert stream.getvalue() == ""


FORMS: dict[LogFormat, str] = {"json": f'"event_id":"{EVENT_ID}"', "pretty": f"event_id={EVENT_ID}"}


def test_an_id_is_the_same_word_for_people_and_for_programs() -> None:
    """Also where a line goes the long way because something in it is no plain text."""
    for job_id in ("a", "jäger"):
        for log_format, expected in FORMS.items():
            with own_log(log_format) as stream:
                Reporter(ManualClock()).report_completed([done(job_id)], 1.25)
            assert expected in stream.getvalue()
