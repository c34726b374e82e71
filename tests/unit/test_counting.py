"""What one run adds to the numbers: by its ending, and never under a name that data made up."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from homing.clock import SystemClock
from homing.ids import JobId, LeaseToken
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics
from homing.metrics.bounded import OTHER, Bounded
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Completed, HeldBack, LeaseLost, Outcome, Postponed
from homing.queue.port import Finished, Held
from homing.worker.counting import RunCounter
from homing.worker.run import Run
from homing.worker.slot import Owner, Plain, Slot


def run_of() -> Run:
    """A first run of a delivery that was opened now."""
    job = ClaimedJob(
        lease=Lease("mail", JobId("1"), LeaseToken("t")),
        name="send",
        data="{}",
        timestamp_ms=0,
        attempts=1,
        starts=1,
        attempts_made=0,
    )
    handler = SimpleNamespace(job_name="send")
    case: Any = SimpleNamespace(job=job, handler=handler, consumer="mail.send", event_id=uuid4(), generation=None)
    envelope: Any = SimpleNamespace(opened_at=datetime.now(UTC))
    return Run(case=case, event=cast("Any", None), envelope=envelope, trace_id="t")


def counter() -> RunCounter:
    """One that has counted nothing."""
    return RunCounter(Metrics("shop"), SystemClock(), cast("Ledger", SimpleNamespace(clock_offset_seconds=0.0)))


def counted(outcome: Outcome, held: Held = Held.HELD) -> dict[str, float]:
    """The sums of one run of 20 ms that came to this, by name; what is zero is left out."""
    run, counting = run_of(), counter()
    counting.count(run.job, run, outcome, Finished(held), 0.02)
    return sums(counting.metrics)


def sums(metrics: Metrics) -> dict[str, float]:
    """How often everything was counted."""
    return {
        sample.name.removeprefix("homing_"): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.endswith(("_total", "_count")) and sample.value
    }


def test_a_run_whose_lease_another_one_took_is_counted_as_that_once() -> None:
    """Whether it noticed while it ran or only when it ended."""
    assert counted(LeaseLost("gone"), Held.TAKEN)["leases_lost_total"] == 1
    late = counted(Completed(), Held.TAKEN)
    assert (late["leases_lost_total"], late["deliveries_settled_total"]) == (1, 1)
    assert "leases_lost_total" not in counted(Completed(), Held.MISSING)


def test_a_group_is_counted_as_its_runs_are() -> None:
    """In fewer steps, and to the same sums."""
    together, apart, owner = counter(), counter(), cast("Owner", None)
    now = SystemClock().monotonic()
    ends = [Held.HELD, Held.TAKEN, Held.MISSING]
    runs = [run_of() for _ in ends]
    group = [Plain(Slot(run.job, owner, now - 0.02), run) for run in runs]
    for plain, held in zip(group, ends, strict=True):
        plain.finished = Finished(held)
    together.count_completed(group, now)
    for run, held in zip(runs, ends, strict=True):
        apart.count(run.job, run, Completed(), Finished(held), 0.02)
    assert sums(together.metrics) == sums(apart.metrics)
    assert sums(together.metrics)["job_wait_seconds_count"] == 3


def test_what_was_no_run_has_no_duration_and_what_was_no_start_no_wait() -> None:
    """A job that its key's limit held back did not run; one that was given back has not had its start."""
    assert counted(HeldBack(1.0, "full")) == {"job_runs_total": 1}
    assert counted(Postponed(1.0, "away", "interrupted")) == {"job_runs_total": 1, "job_duration_seconds_count": 1}
    assert counted(Postponed(1.0, "not yet", "snoozed")) == {
        "job_runs_total": 1,
        "job_duration_seconds_count": 1,
        "job_wait_seconds_count": 1,
    }


def test_names_from_data_are_bounded() -> None:
    """The first are told apart for ever, all others are one."""
    names = Bounded(2)
    assert [names.label(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]
