"""Progress and logs of a job: what a run tells, from every engine and for every tool."""

from homing.ids import JobId
from homing.queue.job import KeepRule
from homing.queue.memory import MemoryEngine
from homing.queue.notes import KEPT_LINES, LONGEST_LINE
from homing.queue.redis import RedisEngine
from tests.contract.conftest import QUEUE, Subject
from tests.waiting import until


async def test_the_last_progress_is_shown(subject: Subject) -> None:
    """A job shows what its run said last, also after its end; an id without a job shows nothing."""
    assert isinstance(subject.engine, MemoryEngine | RedisEngine)
    await subject.add("a")
    assert await subject.engine.note_progress(QUEUE, JobId("a"), "10")
    assert await subject.engine.note_progress(QUEUE, JobId("a"), '{"page":3}')
    running = await subject.claim()
    await subject.engine.complete(running, "null", mark=None, keep=KeepRule(), claim_next=None)
    shown = await subject.engine.show(QUEUE, JobId("a"))
    assert shown is not None
    assert shown.fields["progress"] == '{"page":3}'
    assert not await subject.engine.note_progress(QUEUE, JobId("gone"), "1")
    assert await subject.engine.show(QUEUE, JobId("gone")) is None


async def test_a_log_is_read_in_pages_and_capped(subject: Subject) -> None:
    """Lines stay in their order, the oldest leave, a long one is cut, and reading goes on where it ended."""
    assert isinstance(subject.engine, MemoryEngine | RedisEngine)
    await subject.add("a")
    assert await subject.engine.note_lines(QUEUE, JobId("a"), ["first", "x" * (LONGEST_LINE + 1), "\ud800"])
    page = await subject.engine.read_lines(QUEUE, JobId("a"), most=2)
    assert (page.first, page.total, page.lines[0], len(page.lines[1])) == (0, 3, "first", LONGEST_LINE)
    rest = await subject.engine.read_lines(QUEUE, JobId("a"), first=2)
    assert len(rest.lines) == 1
    assert await subject.engine.note_lines(QUEUE, JobId("a"), [str(number) for number in range(KEPT_LINES)])
    page = await subject.engine.read_lines(QUEUE, JobId("a"), first=KEPT_LINES - 1)
    assert (page.total, page.lines) == (KEPT_LINES, (str(KEPT_LINES - 1),))
    shown = await subject.engine.show(QUEUE, JobId("a"))
    assert shown is not None
    assert (shown.log_lines, shown.logs[-1]) == (KEPT_LINES, str(KEPT_LINES - 1))


async def test_a_run_writes_nothing_into_the_job_of_another(subject: Subject) -> None:
    """Whoever slept through its lease tells nobody anything; whose lock is merely missing still does, and so does who is no run."""
    assert isinstance(subject.engine, MemoryEngine | RedisEngine)
    engine = subject.engine
    await subject.add("a")
    first = (await subject.claim(lease_seconds=0.2)).lease
    assert await engine.note_lines(QUEUE, JobId("a"), ["first"], holder=first.token)
    await until(lambda: engine.rescue(QUEUE, 0.01))
    assert await engine.note_progress(QUEUE, JobId("a"), "1", holder=first.token)
    second = (await subject.claim()).lease
    assert not await engine.note_lines(QUEUE, JobId("a"), ["late"], holder=first.token)
    assert not await engine.note_progress(QUEUE, JobId("a"), "2", holder=first.token)
    assert await engine.note_lines(QUEUE, JobId("a"), ["second"], holder=second.token)
    assert await engine.note_lines(QUEUE, JobId("a"), ["somebody"])
    assert (await engine.read_lines(QUEUE, JobId("a"))).lines == ("first", "second", "somebody")
    shown = await engine.show(QUEUE, JobId("a"))
    assert shown is not None
    assert shown.fields["progress"] == "1"


async def test_nobody_writes_into_the_log_of_a_job_that_is_gone(subject: Subject) -> None:
    """The answer says so, and no key is left behind."""
    assert not await subject.engine.note_lines(QUEUE, JobId("gone"), ["late"])
    assert (await subject.engine.read_lines(QUEUE, JobId("gone"))).total == 0
