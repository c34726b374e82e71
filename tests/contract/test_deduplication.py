"""De-duplication and order of adding: what the model test cannot see because it takes time, or a refusal."""

import pytest
from redis import Redis

from homing.ids import JobId
from homing.queue.job import Deduplication
from homing.queue.port import Accepted, Deduplicated, Refused
from tests.contract.conftest import KEEP, QUEUE, Subject, job
from tests.waiting import until

DELIVERY = "01890000-0000-7000-8000-000000000001.1.mail.send"


async def add(subject: Subject, job_id: str, *, delay_seconds: float = 0.0, **terms: object) -> object:
    """Add a job that is the same as others which say `x`."""
    same = Deduplication(id="x", **terms)  # type: ignore[arg-type]  # tests name only the fields that matter
    (answer,) = await subject.engine.add(QUEUE, [job(job_id, deduplication=same, delay_seconds=delay_seconds)])
    return answer


async def test_a_simple_one_lasts_until_its_job_has_ended(subject: Subject) -> None:
    """While the first waits or runs, others give way and it is named; after its end the next one is added."""
    assert await add(subject, "a") is Accepted.ACCEPTED
    assert await add(subject, "b") == Deduplicated(JobId("a"))
    running = await subject.claim()
    assert await add(subject, "b") == Deduplicated(JobId("a"))
    await subject.engine.fail(running, "no", stack="", mark=None, keep=KEEP, claim_next=None)
    assert await add(subject, "b") is Accepted.ACCEPTED


async def test_a_ttl_outlasts_its_job_and_ends_by_time(subject: Subject) -> None:
    """What became of the job does not matter; `extend` lets the time of the newcomer begin, and then it ends."""
    assert await add(subject, "a", ttl_seconds=600) is Accepted.ACCEPTED
    await subject.engine.complete(await subject.claim(), "null", mark=None, keep=KEEP, claim_next=None)
    assert await add(subject, "b", ttl_seconds=600) == Deduplicated(JobId("a"))
    assert await add(subject, "b", ttl_seconds=0.05, extend=True) == Deduplicated(JobId("a"))

    async def is_added() -> bool:
        return await add(subject, "b", ttl_seconds=600) is Accepted.ACCEPTED

    await until(is_added, 30, "the time is over")


async def test_the_last_one_that_came_meanwhile_follows(subject: Subject) -> None:
    """Of those that came while the first ran, the last is added when that ends, under its own id and with its own data."""
    assert await add(subject, "a", keep_last_if_active=True) is Accepted.ACCEPTED
    running = await subject.claim()
    for late in ("b", "c"):
        assert await add(subject, late, keep_last_if_active=True) == Deduplicated(JobId("a"))
    finished = await subject.engine.complete(running, "1", mark=None, keep=KEEP, claim_next=None)
    assert finished.next is None
    assert (await subject.claim()).lease.job_id == "c"
    assert await add(subject, "d", keep_last_if_active=True) == Deduplicated(JobId("c"))


async def test_a_job_that_is_gone_stands_for_nobody(subject: Subject) -> None:
    """Removed, or lost with the engine's data: the next one is added, and no lock outlives its job."""
    assert await add(subject, "a") is Accepted.ACCEPTED
    assert await subject.engine.remove(QUEUE, JobId("a"))
    assert await add(subject, "b") is Accepted.ACCEPTED
    if subject.server_url is None:
        subject.flush()
    else:
        with Redis.from_url(subject.server_url) as client:
            client.delete(f"bull:{QUEUE}:b")  # what an evicting server does
    assert await add(subject, "c") is Accepted.ACCEPTED


@pytest.mark.parametrize("extend", [False, True])
async def test_who_replaces_keeps_the_time_unless_it_extends(subject: Subject, extend: bool) -> None:  # noqa: FBT001
    """A delayed job makes way; the window goes on as the first began it, or begins anew."""
    assert await add(subject, "a", ttl_seconds=100, delay_seconds=60, replace=True) is Accepted.ACCEPTED
    answer = await add(subject, "b", ttl_seconds=600, delay_seconds=60, replace=True, extend=extend)
    assert answer is Accepted.ACCEPTED
    assert [trace.exists for trace in await subject.engine.inspect(QUEUE, [JobId("a"), JobId("b")])] == [False, True]
    if subject.server_url is not None:
        with Redis.from_url(subject.server_url) as client:
            left = client.pttl(f"bull:{QUEUE}:de:x")
        assert isinstance(left, int)
        assert (left > 100_000) is extend


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"id": DELIVERY, "deduplication": Deduplication(id="x")}, "never de-duplicated"),
        ({"deduplication": Deduplication(id="")}, "1 to 500 characters"),
        ({"deduplication": Deduplication(id="x", ttl_seconds=0.0)}, "at least 0.001 seconds"),
        ({"deduplication": Deduplication(id="x", extend=True)}, "give it a ttl"),
        ({"deduplication": Deduplication(id="x", ttl_seconds=1, keep_last_if_active=True)}, "leave the ttl out"),
        ({"deduplication": Deduplication(id="\ud800")}, "valid Unicode"),
        ({"lifo": True, "priority": 1}, "leave one of them out"),
        ({"lifo": True, "delay_seconds": 1.0}, "leave one of them out"),
    ],
)
async def test_terms_that_contradict_each_other_are_refused(
    subject: Subject, terms: dict[str, object], reason: str
) -> None:
    """What would be ignored, or would lose a delivery, is refused with the reason, and nothing is added."""
    fields = {"id": "a"} | terms
    (answer,) = await subject.engine.add(QUEUE, [job(str(fields.pop("id")), **fields)])
    assert isinstance(answer, Refused)
    assert reason in answer.error
    assert (await subject.engine.counts(QUEUE)).waiting == 0
