"""Limits by key: a rate and pauses for each tenant alone; the same from every engine."""

import pytest

from homing.ids import JobId
from homing.queue.port import Limit
from tests.contract.conftest import QUEUE, Subject

SLOW = Limit(jobs=2, seconds=100.0)
ONE = Limit(jobs=1, seconds=100.0)


async def ask_for(subject: Subject, job_id: str, key: str = "a", limit: Limit | None = SLOW) -> float:
    return await subject.engine.permit(QUEUE, JobId(job_id), key, limit)


async def test_each_key_has_its_own_permits_and_its_own_line(subject: Subject) -> None:
    """The first jobs of a key start, each later one is told the time of its turn, and other keys and queues are untouched."""
    waits = [await ask_for(subject, f"a{number}") for number in range(7)]
    assert [round(wait, -1) for wait in waits] == [0, 0, 100, 100, 200, 200, 300]
    assert await ask_for(subject, "b1", key="b") == 0
    assert await subject.engine.permit("other", JobId("a9"), "a", SLOW) == 0
    assert round(await ask_for(subject, "a3"), -1) == 100  # asking again keeps the place


async def test_whoever_was_sent_away_has_his_turn_before_who_comes_later(subject: Subject) -> None:
    """When the window ends the permit is for the one that waits, not for the one that happens to come."""
    assert await ask_for(subject, "first", limit=ONE) == 0
    assert 50 < await ask_for(subject, "second", limit=ONE) <= 100
    subject.advance(101)
    assert await ask_for(subject, "later", limit=ONE) > 50
    assert await ask_for(subject, "second", limit=ONE) == 0


async def test_jobs_that_come_late_together_keep_to_the_rate(subject: Subject) -> None:
    """Turns that passed unused, because all workers were busy, are not made up for in one window."""
    for job_id in ("first", "second", "third"):
        await ask_for(subject, job_id, limit=ONE)
    subject.advance(350)  # both turns have passed
    assert await ask_for(subject, "second", limit=ONE) == 0
    assert await ask_for(subject, "third", limit=ONE) > 0


@pytest.mark.parametrize("limit", [None, SLOW], ids=["without a rate", "with a rate"])
@pytest.mark.parametrize("key", ["a", "x" * 5000, "\x00\ud800: *"], ids=["short", "long", "hostile"])
async def test_a_paused_key_starts_nothing_and_the_others_everything(
    subject: Subject, key: str, limit: Limit | None
) -> None:
    """The longer of two pauses counts; another key goes on; afterwards the key does too."""
    await subject.engine.pause_key(QUEUE, key, 60)
    await subject.engine.pause_key(QUEUE, key, 0.01)
    assert 50 < await ask_for(subject, "one", key=key, limit=limit) <= 60
    assert await ask_for(subject, "two", key=key + "?", limit=limit) == 0
    subject.advance(61)
    assert await ask_for(subject, "one", key=key, limit=limit) == 0
