"""How long the job that is next in line has waited, as operators see it, on every engine."""

import time

import pytest

from homing.operations.overview import read_queues
from homing.queue.port import QueueSettings
from tests.contract.conftest import QUEUE, Subject

MINUTE = 60.0


def _ms(ago_seconds: float) -> int:
    return int((time.time() - ago_seconds) * 1000)


async def _waited(subject: Subject) -> float:
    (state,) = await read_queues(subject.engine, [QUEUE])  # type: ignore[arg-type]  # the engines of the suite can be browsed
    return state.oldest_waiting_seconds


async def test_the_oldest_waiting_job_counts_whatever_its_priority(subject: Subject) -> None:
    """Nothing waits: 0; then the age of the first of the line, or of the first among those with a priority."""
    assert await _waited(subject) == 0
    await subject.add("young", timestamp_ms=_ms(1))
    assert 1 <= await _waited(subject) < MINUTE
    await subject.add("old", timestamp_ms=_ms(5 * MINUTE), priority=7)
    assert 5 * MINUTE <= await _waited(subject) < 6 * MINUTE


@pytest.mark.parametrize("subject", ["redis"], indirect=True)  # the one in memory does not keep when a job started
async def test_a_job_that_ran_waits_since_its_last_start(subject: Subject) -> None:
    """A retry of an old job is no standstill: it has just been started, and is in line again."""
    await subject.add("old", timestamp_ms=_ms(5 * MINUTE))
    job = await subject.claim()
    assert await _waited(subject) == 0
    await subject.engine.retry(job, 0.0, spend_attempt=True, reason="no", stack="", claim_next=None)
    assert 0 <= await _waited(subject) < MINUTE


async def test_what_holds_a_queue_back_is_seen(subject: Subject) -> None:
    """A pause and a throttled queue are told apart from one that nobody serves."""
    await subject.add("a", timestamp_ms=_ms(MINUTE))
    await subject.engine.push_settings(QUEUE, QueueSettings(paused=True))
    (state,) = await read_queues(subject.engine, [QUEUE])  # type: ignore[arg-type]  # as above
    assert state.paused
    assert dict(state.states())["paused"] == 1
    await subject.engine.push_settings(QUEUE, QueueSettings(paused=False))
    await subject.engine.throttle(QUEUE, MINUTE, None)
    (state,) = await read_queues(subject.engine, [QUEUE])  # type: ignore[arg-type]  # as above
    assert 0 < state.throttled_seconds <= MINUTE
