"""Handlers in child processes: their results, their errors, and every way in which a child can end."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from homing.config.logs import log_fields
from homing.config.settings import Settings
from homing.deadletters.report import report_error
from homing.errors import AttemptTimeout, PermanentError, RetryLater, Throttled
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import Postponed, Retry
from homing.worker.catalogue import Catalogue
from homing.worker.children import process
from homing.worker.children.failures import ChildDied
from homing.worker.children.pool import Children, Recycling
from homing.worker.classify import Attempt, Fatal, classify
from homing.worker.endings import Raised, Returned
from homing.worker.opening import open_run
from homing.worker.run import Cause, Run
from tests.integration.children_app import app
from tests.waiting import until

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")
SETTINGS = Settings(database_url="postgresql://nobody@localhost/none", redis_url="redis://localhost")


class Told(list[tuple[str, str]]):
    """What a run told."""

    def tell(self, kind: str, text: str) -> None:
        self.append((kind, text))


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    """A pool whose children are gone afterwards."""
    pool = Children(SETTINGS)
    yield pool
    pids = pool.pids
    await pool.close()
    assert pool.pids == []
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def run_of(name: str = "draw", version: int = 1, **payload: object) -> Run:
    """A run of one of the app's handlers."""
    job = ClaimedJob(
        lease=Lease("pictures", JobId("17"), LeaseToken("t")),
        name=name,
        data=json.dumps({"eventId": str(EVENT), "version": version, "payload": payload, "traceId": "t-1"}),
        timestamp_ms=1_700_000_000_000,
        attempts=1,
        starts=1,
        attempts_made=0,
    )
    run = open_run(job, Catalogue(app.handlers))
    assert isinstance(run, Run), run
    return run


async def answer_of(children: Children, run: Run, timeout_seconds: float = 30) -> dict[str, object]:
    """What the handler returned."""
    ending = await children.call(run, timeout_seconds)
    assert isinstance(ending, Returned), ending
    answer: dict[str, object] = json.loads(ending.result)
    return answer


async def error_of(children: Children, run: Run, timeout_seconds: float = 30) -> BaseException:
    """What the handler failed with."""
    ending = await children.call(run, timeout_seconds)
    assert isinstance(ending, Raised), ending
    return ending.error


async def written(note: Path) -> int:
    """The process id that the handler wrote down."""

    def text() -> str:
        found = note.read_text(encoding="ascii") if note.exists() else ""
        return found if found.endswith("\n") else ""

    return int(await until(text, 30, "the handler runs"))


async def test_event_job_and_trace_arrive_and_the_result_comes_back(children: Children) -> None:
    """The event is of its own class with its own types, upcasts included; Job and trace are those of the run, which hears what is told."""
    run = run_of(price="1.50", day="2026-02-28", size="large")
    run.notes = told = Told()
    answer = await answer_of(children, run)
    assert told == [("progress", '{"mood":""}'), ("line", "drawing")]
    assert answer["types"] == ["Decimal", "date", "LARGE"]
    assert answer["event_id"] == str(run_of().event_id)
    assert answer["attempt"] == 1
    assert answer["recorded_at"] == "2023-11-14T22:13:20+00:00"
    assert answer["trace_id"] == run_of().trace_id
    assert answer["pid"] != os.getpid()
    assert await children.call(run_of("convert", euros=3), 30) == Returned("300")


async def test_a_child_is_used_again_and_imports_once(children: Children) -> None:
    """Runs after one another share a child; runs at once have one each."""
    first, second = await answer_of(children, run_of()), await answer_of(children, run_of())
    assert (first["pid"], first["imported_at"]) == (second["pid"], second["imported_at"])
    both = await asyncio.gather(answer_of(children, run_of()), answer_of(children, run_of()))
    assert len({answer["pid"] for answer in both}) == 2
    assert len(children.pids) == 2


ERRORS: list[tuple[str, type[BaseException], str]] = [
    ("permanent", PermanentError, "PermanentError: no such picture"),
    ("unauthorized", PermanentError, "Unauthorized: 401"),
    ("later", RetryLater, "RetryLater: not yet drawn (again in 7 s)"),
    ("throttled", Throttled, "Throttled: throttled (again in 9 s)"),
    ("value", Exception, "ValueError: a value"),
    ("surrogate", Exception, "ValueError: \N{REPLACEMENT CHARACTER}"),
    ("base", Exception, "BaseException: not even an Exception"),
    ("interrupt", Exception, "KeyboardInterrupt"),
    ("group", Exception, "BaseExceptionGroup: both (2 sub-exceptions)"),
    ("exit", Exception, "SystemExit: 3"),
]


async def test_errors_keep_their_meaning(children: Children) -> None:
    """What a handler raises is judged and shown as in the worker itself, and the child goes on."""
    pid = (await answer_of(children, run_of()))["pid"]
    for mood, kind, summary in ERRORS:
        error = await error_of(children, run_of(mood=mood))
        report = report_error(error)
        assert isinstance(error, kind), mood
        assert report.summary == summary
        assert report.frame == "children_app.py:raise_of"
        assert "in draw" in report.stack
    assert (await answer_of(children, run_of()))["pid"] == pid


async def test_verdicts_are_those_of_the_error_itself(children: Children) -> None:
    """Delays, spent attempts and deaths follow from the error's meaning."""
    attempt, policy = Attempt(number=1, starts=1), run_of().handler.policy

    async def verdict(mood: str) -> object:
        return classify(await error_of(children, run_of(mood=mood)), attempt, policy, lambda: 0.5)

    assert isinstance(await verdict("unauthorized"), Fatal)
    assert isinstance(await verdict("value"), Retry)
    later, throttled = await verdict("later"), await verdict("throttled")
    assert isinstance(later, Postponed)
    assert isinstance(throttled, Postponed)
    assert (later.delay_seconds, later.how) == (7, "snoozed")
    assert (throttled.delay_seconds, throttled.how) == (9, "throttled")


async def test_a_result_that_is_no_json_is_permanent(children: Children) -> None:
    """Results are written down in the child, by the rules of the worker."""
    for mood in ("", "NUL"):
        assert isinstance(await error_of(children, run_of("unjson", mood=mood)), PermanentError)


@pytest.mark.parametrize("mood", ["wait", "deaf"])
async def test_a_run_past_its_time_is_killed(children: Children, tmp_path: Path, mood: str) -> None:
    """The child of a run that takes too long is killed, even one that never lets go of the interpreter; the pool goes on."""
    note = tmp_path / "pid"
    error = await error_of(children, run_of(mood=mood, note=str(note)), 1)
    assert isinstance(error, AttemptTimeout)
    assert children.deaths == 0
    pid = await written(note)
    await until(lambda: not psutil.pid_exists(pid), what="the child is gone")
    assert (await answer_of(children, run_of()))["pid"] != pid


@pytest.mark.parametrize("cause", [Cause.LEASE_LOST, Cause.SHUTDOWN])
async def test_a_run_that_is_told_to_end_is_killed(children: Children, tmp_path: Path, cause: Cause) -> None:
    """Another run's lease and the worker's end kill the child; the ending says which it was."""
    run, note = run_of(mood="wait", note=str(tmp_path / "pid")), tmp_path / "pid"
    call = asyncio.create_task(children.call(run, 30))
    pid = await written(note)
    run.cancel(cause)
    ending = await call
    assert isinstance(ending, Raised)
    assert (ending.cause, ending.stuck) == (cause, False)
    assert run.ended
    await until(lambda: not psutil.pid_exists(pid), what="the child is gone")


async def test_a_run_told_to_end_before_it_began_runs_nothing(children: Children) -> None:
    """A cause that comes first wins, however fast the handler is."""
    run = run_of(mood="wait")
    run.cancel(Cause.SHUTDOWN)
    ending = await children.call(run, 30)
    assert isinstance(ending, Raised)
    assert ending.cause is Cause.SHUTDOWN


async def test_a_killed_child_is_one_runs_failure(children: Children, tmp_path: Path) -> None:
    """SIGKILL of a working child fails its run, for once; the neighbour's run goes on, and the next run gets a new child."""
    note, gate = tmp_path / "pid", tmp_path / "gate"
    neighbour = asyncio.create_task(answer_of(children, run_of(mood="wait", gate=str(gate))))
    victim = asyncio.create_task(error_of(children, run_of(mood="wait", note=str(note))))
    os.kill(await written(note), signal.SIGKILL)
    died = await victim
    assert isinstance(died, ChildDied)
    assert str(died) == "the child process that ran it was killed by SIGKILL"
    assert isinstance(classify(died, Attempt(number=1, starts=1), run_of().handler.policy, lambda: 0.5), Retry)
    gate.touch()
    assert (await neighbour)["attempt"] == 1
    assert children.deaths == 1
    await answer_of(children, run_of())


@pytest.mark.parametrize(
    ("mood", "text"),
    [
        ("_exit", "the child process that ran it ended with exit code 3"),
        ("abort", "the child process that ran it was killed by SIGABRT"),
    ],
)
async def test_a_handler_that_ends_its_process_fails(
    children: Children, capfd: pytest.CaptureFixture[str], mood: str, text: str
) -> None:
    """Leaving past the interpreter is noticed at once, and told."""
    died = await error_of(children, run_of(mood=mood))
    assert isinstance(died, ChildDied)
    assert str(died) == text
    assert ("children_app.py" in capfd.readouterr().err) is (mood == "abort")  # the stack of a crash is written down


async def test_a_child_that_died_idle_costs_no_run(children: Children) -> None:
    """A child that was killed between two runs is replaced, and the next run knows nothing of it."""
    (pid,) = [(await answer_of(children, run_of()))["pid"]]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert (await answer_of(children, run_of()))["pid"] != pid
    assert children.deaths == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_of_the_group_do_not_end_a_run(
    children: Children, tmp_path: Path, number: signal.Signals
) -> None:
    """A child has a group of its own, and is deaf to the signals that stop the worker."""
    note, gate = tmp_path / "pid", tmp_path / "gate"
    call = asyncio.create_task(answer_of(children, run_of(mood="wait", note=str(note), gate=str(gate))))
    pid = await written(note)
    assert os.getpgid(pid) == pid != os.getpgid(0)
    os.kill(pid, number)
    gate.touch()
    assert (await call)["pid"] == pid


async def test_what_a_handler_started_ends_with_it(children: Children, tmp_path: Path) -> None:
    """Killing a child kills the programs that its handler started."""
    note = tmp_path / "pid"
    run = run_of(mood="spawn", gate=str(note))
    call = asyncio.create_task(children.call(run, 30))
    grandchild = psutil.Process(await written(note))
    assert grandchild.pid not in children.pids
    run.cancel(Cause.LEASE_LOST)
    await call
    await until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE, what="it is gone")


async def test_a_fork_that_keeps_the_socket_hides_no_death(children: Children, tmp_path: Path) -> None:
    """A child that forked and ended is found dead although its copy holds the connection, and the copy ends too."""
    note = tmp_path / "pid"
    died = await error_of(children, run_of(mood="fork", gate=str(note)))
    assert str(died) == "the child process that ran it ended with exit code 4"
    copy = psutil.Process(await written(note)) if psutil.pid_exists(await written(note)) else None
    await until(
        lambda: copy is None or not copy.is_running() or copy.status() == psutil.STATUS_ZOMBIE, what="it is gone"
    )


async def test_children_are_replaced_after_so_many_jobs() -> None:
    """`max_jobs` runs, and the child makes room for a fresh one."""
    children = Children(SETTINGS, Recycling(max_jobs=2))
    pids = [(await answer_of(children, run_of()))["pid"] for _ in range(4)]
    await children.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_children_that_grew_are_replaced() -> None:
    """A child that holds more memory than it may is replaced after its run, whose result counts."""
    children = Children(SETTINGS, Recycling(max_rss_mb=160))
    first, grown, fresh = [(await answer_of(children, run_of(mood=mood)))["pid"] for mood in ("", "grow", "")]
    await children.close()
    assert first == grown != fresh


async def test_threads_left_behind_do_not_keep_a_child(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child whose handler left a thread running answers, works on, and still ends with the pool."""
    monkeypatch.setattr(process, "LEAVING_SECONDS", 0.2)
    await answer_of(children, run_of(mood="thread"))
    await answer_of(children, run_of())


async def test_prints_are_no_answers(children: Children, capfd: pytest.CaptureFixture[str]) -> None:
    """What a handler writes to its standard output appears there, when its run ends, and nowhere else."""
    answer = await answer_of(children, run_of(mood="print"))
    assert answer["attempt"] == 1
    assert "a picture" in capfd.readouterr().out


async def test_lines_of_a_child_know_their_job(children: Children, capfd: pytest.CaptureFixture[str]) -> None:
    """A handler's log lines carry the context of the run, as everywhere."""
    with log_fields(job_id="17", trace_id="t-1"):
        await answer_of(children, run_of(mood="log"))
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "drawing" in line]
    written_line = json.loads(line)
    assert (written_line["job_id"], written_line["trace_id"]) == ("17", "t-1")
    assert written_line["logger"] == "tests.children"


async def test_a_module_that_a_child_cannot_import_spends_no_attempt(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When no child can find the handler, the job waits, and the reason is told."""
    run = run_of()
    monkeypatch.setattr(run.handler.function, "__module__", "tests.integration.not_there")
    error = await error_of(children, run)
    assert isinstance(error, RetryLater)
    assert "not_there" in str(error)


async def test_a_closed_pool_begins_nothing(children: Children) -> None:
    """After the end of the worker no child is started."""
    await children.close()
    assert isinstance(await error_of(children, run_of()), RetryLater)
    assert children.pids == []
