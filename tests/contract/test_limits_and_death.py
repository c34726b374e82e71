"""A bound of running jobs whose holder died: its place is given back with its lease, and not before; the same from every engine."""

from homing.queue.job import ClaimedJob
from homing.queue.port import Held, Idle, QueueSettings
from tests.contract.conftest import KEEP, QUEUE, Subject, ask
from tests.waiting import until


async def test_the_place_of_a_dead_worker_is_free_again_with_its_lease(subject: Subject) -> None:
    """No counter is left behind by whoever was killed: what counts is what runs, and what runs has a lease."""
    engine = subject.engine
    await engine.push_settings(QUEUE, QueueSettings(concurrency=1))
    await subject.add("a", "b")
    dead = await subject.claim(lease_seconds=0.05)
    assert await engine.claim(QUEUE, ask()) == Idle()
    assert await until(lambda: engine.rescue(QUEUE, 0.01)) == ["a"]
    again = await subject.claim()
    assert (again.lease.job_id, again.stalls) == ("a", 1)
    assert await engine.claim(QUEUE, ask()) == Idle()
    assert (await engine.complete(dead, "1", mark=None, keep=KEEP, claim_next=ask())).held is Held.TAKEN
    assert await engine.claim(QUEUE, ask()) == Idle()  # the dead one's end gives no place away
    finished = await engine.complete(again, "1", mark=None, keep=KEEP, claim_next=ask())
    assert isinstance(finished.next, ClaimedJob)
    assert finished.next.lease.job_id == "b"


async def test_the_place_of_a_living_worker_is_never_given_away(subject: Subject) -> None:
    """However long it runs: looks without end find nobody dead, and nobody else gets in."""
    engine = subject.engine
    await engine.push_settings(QUEUE, QueueSettings(concurrency=1))
    await subject.add("a", "b")
    await subject.claim()
    looks = 0

    async def looked_often() -> bool:
        nonlocal looks
        assert await engine.rescue(QUEUE, 0.005) == []
        assert await engine.claim(QUEUE, ask()) == Idle()
        looks += 1
        return looks == 10

    await until(looked_often)
