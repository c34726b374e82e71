"""Finishing together: who leaves with whom, and whose error is whose."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from homing.errors import HomingError, ServerUnavailable
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, KeepRule, Lease
from homing.queue.port import MOST_TOGETHER, ClaimRequest, Completion, Finished, Held
from homing.worker.finishing import Finisher

REQUEST = ClaimRequest(LeaseToken("next"), 30.0)


class Desk:
    """Takes completions, and remembers who came with whom."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.answers: list[Finished | HomingError] | HomingError | None = None

    async def complete(
        self, job: ClaimedJob, result: str, *, claim_next: ClaimRequest | None, **terms: Any
    ) -> Finished:
        self.groups.append([job.lease.job_id])
        return Finished(Held.HELD)

    async def complete_group(
        self, queue: str, completions: Sequence[Completion], claim_next: ClaimRequest | None, most: int | None = None
    ) -> list[Finished | HomingError]:
        assert (claim_next, most) == (REQUEST, None)
        self.groups.append([each.job.lease.job_id for each in completions])
        if isinstance(self.answers, HomingError):
            raise self.answers
        return self.answers or [Finished(Held.HELD)] * len(completions)


def completion(number: int, queue: str = "mail") -> Completion:
    """A job that has completed."""
    lease = Lease(queue, JobId(str(number)), LeaseToken("t"))
    job = ClaimedJob(lease=lease, name="n", data="{}", timestamp_ms=0, attempts=1, starts=1, attempts_made=0)
    return Completion(job, "null", "done", KeepRule())


def finisher(desk: Desk) -> Finisher:
    """A finisher at this desk."""
    engine: Any = desk
    return Finisher(engine)


async def test_who_completes_in_one_turn_leaves_together() -> None:
    """By queue, and never more than the engine moves at once; a lone one, and one that asks for nothing more, leave by themselves."""
    desk = Desk()
    ending = finisher(desk)
    crowd = [completion(number) for number in range(MOST_TOGETHER + 2)]
    others = [completion(100, "sales"), completion(101, "sales")]
    await asyncio.gather(
        *(ending.complete(each, REQUEST) for each in [*crowd, *others, completion(200, "lone")]),
        ending.complete(completion(300), None),
    )
    assert sorted(map(len, desk.groups)) == [1, 1, 2, 2, MOST_TOGETHER]
    assert ["100", "101"] in desk.groups
    await ending.complete(completion(1), REQUEST)
    assert desk.groups[-1] == ["1"]


async def test_an_error_is_the_error_of_those_it_stands_for() -> None:
    """One among the answers is one job's; a raised one is everybody's."""
    desk = Desk()
    ending = finisher(desk)
    desk.answers = [Finished(Held.HELD), ServerUnavailable("away"), Finished(Held.TAKEN)]
    answers = await asyncio.gather(
        *(ending.complete(completion(number), REQUEST) for number in range(3)), return_exceptions=True
    )
    assert answers[0] == Finished(Held.HELD)
    assert isinstance(answers[1], ServerUnavailable)
    assert answers[2] == Finished(Held.TAKEN)
    desk.answers = ServerUnavailable("gone")
    group = await ending.complete_group("mail", [completion(1), completion(2)], REQUEST)
    assert [str(error) for error in group] == ["gone", "gone"]


async def test_who_no_longer_waits_costs_the_others_nothing() -> None:
    """A run that is told to end while its group is on the way is left out of the answers."""
    ending = finisher(Desk())
    tasks = [asyncio.create_task(ending.complete(completion(number), REQUEST)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    assert await tasks[0] == await tasks[2] == Finished(Held.HELD)
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
