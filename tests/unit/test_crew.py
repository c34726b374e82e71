"""Several workers judged as one, from what they wrote and when; and the counters of those that are gone."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from homing.clock import ManualClock
from homing.durations import seconds
from homing.processes import crew as crew_module
from homing.processes.crew import SILENT_SECONDS, STARTING_SECONDS, Crew, Seat, judge_crew
from homing.processes.endpoint import LIVE, METRICS, READY, VERDICT
from homing.processes.reports import Report, read_report, report_of, write_report

WELL: dict[str, Any] = {"live": True, "ready": True, "reasons": [], "verdict": {"level": "flowing"}, "collected": ""}


@dataclass
class Place:
    number: int
    pid: int | None
    started_at: float = 0.0


def seat(report: dict[str, Any] | None = None, *, pid: int | None = 7, age: float = 99.0, silent: float = 1.0) -> Seat:
    said = None if report is None else Report(**({"at": 0.0} | WELL | report))
    return Seat(2, pid, age, said, silent if said else float("inf"))


@pytest.mark.parametrize(
    ("judged", "live", "ready", "reason"),
    [
        (seat({}), True, True, None),
        (seat({"ready": False, "reasons": ["Redis does not answer"]}), True, False, "7): Redis does not answer"),
        (seat({"live": False, "ready": False, "reasons": ["the loop claim is dead"]}), False, False, "claim is dead"),
        (seat(pid=None), True, False, "worker 2 does not run"),
        (seat(age=STARTING_SECONDS), True, False, "worker 2 (process 7) is starting"),
        (seat(age=STARTING_SECONDS + 1), False, False, "has said nothing for 61 s"),
        (seat({}, silent=SILENT_SECONDS + 1), False, False, "has said nothing for 11 s"),
    ],
)
def test_a_worker_is_judged_by_what_it_says_and_when(judged: Seat, live: bool, ready: bool, reason: str | None) -> None:  # noqa: FBT001 - pytest passes them
    """An empty place and a start are nobody's fault; silence of one that reported is."""
    health = judge_crew([judged])
    assert (health.live, health.ready) == (live, ready)
    assert reason in health.reasons[0] if reason else not health.reasons


def test_all_must_live_and_one_that_works_is_enough() -> None:
    """A crew with a dead member is not live, with one in trouble it is ready."""
    assert judge_crew([seat({}), seat({"ready": False}), seat(pid=None)]).ready
    assert not judge_crew([seat({}), seat({"live": False, "ready": False})]).live
    assert not judge_crew([seat(pid=None)]).ready


def test_the_newest_look_is_shown_and_an_old_one_is_not(tmp_path: Path) -> None:
    """Gauges and verdict come from the worker that looked last; nobody takes old numbers for new."""
    clock = ManualClock(ticks=100.0)
    crew = Crew([Place(1, os.getpid()), Place(2, 1), Place(3, None)], tmp_path, clock)
    assert json.loads(crew.answers[VERDICT]().body)["level"] == "stalled"
    write_report(tmp_path, Report(**WELL | {"at": 99.0, "collected": "homing_x 1\n"}))
    report_of(tmp_path, 1).write_text(report_of(tmp_path, os.getpid()).read_text().replace("99.0", "99.5"))
    assert crew.answers[METRICS]().body == b"homing_x 1\n"
    assert crew.answers[VERDICT]().status == crew.answers[READY]().status == crew.answers[LIVE]().status == 200
    clock.advance(seconds(60))
    assert crew.answers[METRICS]().body == b""
    assert crew.answers[VERDICT]().status == crew.answers[LIVE]().status == 503
    crew.forget(1)
    assert read_report(tmp_path, 1) is None


COUNTS = """
import os
from homing.metrics import Metrics, declared
metrics = Metrics("shop")
metrics.count(declared.JOB_RUNS, "mail", "send", "completed", by=2)
metrics.observe(declared.JOB_DURATION, "mail", "send", seconds=0.3)
metrics.set(declared.RUNNING, "mail", to=3)
metrics.set(declared.BACKEND_UP, "redis", to=1)
metrics.flush()
print(os.getpid())
"""


def test_what_a_dead_worker_counted_stays_counted_and_its_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many workers die, their counts add up in one file of each kind, and their gauges are gone."""
    crew = Crew([], tmp_path)
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COUNTS]
    workers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    pids = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    (tmp_path / "counter_1.db").touch()  # a worker is about to make it
    with monkeypatch.context() as patched:
        patched.setattr(crew_module, "gone", lambda _: set())
        before = _values(crew)
    (tmp_path / "counter_1.db").rename(tmp_path / f"summary_{pids[0]}.db")  # and this one dies as it makes it
    assert (before["homing_job_runs_total"], before["homing_job_duration_seconds_count"]) == (4, 2)
    assert (before["homing_worker_running_jobs"], before["homing_backend_up"]) == (6, 1)
    crew.forget(pids[0])  # the other one was no worker of the supervisor's: a child that a handler ran in
    after = _values(crew)
    assert (after["homing_job_runs_total"], after["homing_job_duration_seconds_count"]) == (4, 2)
    assert "homing_worker_running_jobs" not in after
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counter_gone.db", "histogram_gone.db"]


def _values(crew: Crew) -> dict[str, float]:
    text = crew.exposition().decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }
