"""What runs tell: written in order before the job ends, never in the run's way, never after its end."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from homing.app import Job
from homing.errors import PayloadError, ServerUnavailable
from homing.ids import JobId, LeaseToken
from homing.queue.job import Lease
from homing.queue.notes import KEPT_LINES, LONGEST_LINE, LogPage
from homing.worker.telling import Notes

LEASE = Lease("mail", JobId("17"), LeaseToken("t"))


class Paper:
    """Takes notes, or is away."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.calls = 0
        self.lines: list[str] = []
        self.progress: list[str] = []

    async def note_progress(
        self, _queue: str, _job_id: JobId, progress: str, *, holder: LeaseToken | None = None
    ) -> bool:
        assert holder == LEASE.token
        self._turn()
        self.progress.append(progress)
        return True

    async def note_lines(
        self, _queue: str, _job_id: JobId, lines: Sequence[str], *, holder: LeaseToken | None = None
    ) -> bool:
        assert holder == LEASE.token
        self._turn()
        await asyncio.sleep(0)
        self.lines += lines
        return True

    async def read_lines(self, queue: str, job_id: JobId, *, first: int = 0, most: int = 100) -> LogPage:
        raise AssertionError("a run tells, and never reads what it told")

    def _turn(self) -> None:
        self.calls += 1
        if self.away:
            raise ServerUnavailable("gone")


def job(**fields: Any) -> Job:
    names = (
        "id",
        "queue",
        "name",
        "consumer",
        "event_id",
        "trace_id",
        "attempt",
        "attempts",
        "generation",
        "recorded_at",
    )
    return Job(**dict.fromkeys(names), **fields)  # type: ignore[arg-type]  # nothing here reads them


async def test_what_was_told_is_written_before_the_end() -> None:
    """Lines keep their order, of progress the last counts, and many notes cost few calls."""
    paper = Paper()
    notes = Notes(paper, LEASE)
    view = job(_tell=notes.tell)
    for number in range(KEPT_LINES + 5):
        view.log(f"{number}")
        view.progress(number)
    await notes.close()
    assert paper.lines == [f"{number}" for number in range(5, KEPT_LINES + 5)]
    assert paper.progress == [f"{KEPT_LINES + 4}"]
    assert paper.calls == 2


async def test_threads_tell_and_latecomers_are_not_heard() -> None:
    """A thread's notes are there when it has ended; what a run says after its job's end goes nowhere."""
    paper = Paper()
    notes = Notes(paper, LEASE)
    teller = threading.Thread(target=lambda: job(_tell=notes.tell).log("from afar"))
    teller.start()
    teller.join()
    await notes.close()
    notes.tell("line", "late")
    await asyncio.sleep(0)
    assert paper.lines == ["from afar"]


async def test_an_engine_that_is_away_costs_only_the_note(caplog: pytest.LogCaptureFixture) -> None:
    """The run and its end go on, and a warning says what is not shown."""
    notes = Notes(Paper(away=True), LEASE)
    notes.tell("line", "lost")
    await notes.close()
    assert "what job 17 told is not shown: gone" in caplog.text


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), "x" * 65_536, 2**60])
def test_progress_that_cannot_travel_is_refused(value: object) -> None:
    """The run hears at once what no tool could show."""
    with pytest.raises(PayloadError):
        job().progress(value)


def test_a_long_line_is_cut() -> None:
    """Where it is told already, so that nothing carries it around."""
    told: list[str] = []
    job(_tell=lambda _kind, text: told.append(text)).log("x" * (LONGEST_LINE + 1))
    assert [len(text) for text in told] == [LONGEST_LINE]
