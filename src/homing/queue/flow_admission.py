"""Which flows no engine takes: all of a flow's jobs are added, or none. Pure."""

from collections.abc import Sequence

from homing.queue.admission import refusal
from homing.queue.flows import FlowJob
from homing.queue.parent import JobRef
from homing.queue.port import AddResult, Refused

MOST_JOBS = 10_000
"""Jobs of one flow: Redis answers nobody while it adds them."""


def refused_flow(jobs: Sequence[FlowJob]) -> list[AddResult] | None:
    """An answer per job where one of them is refused, so that none is added; `None` when all can be."""
    if len(jobs) > MOST_JOBS:
        return [Refused(f"a flow has at most {MOST_JOBS:,} jobs, not {len(jobs):,}: split it")] * len(jobs)
    errors: list[str | None] = []
    parents: dict[JobRef, bool] = {}
    for one in jobs:
        errors.append(refusal(one.job) or _refused_place(one, parents))
        parents[one.ref] = one.waits
    first = next((error for error in errors if error is not None), None)
    if first is None:
        return None
    return [Refused(error or f"not added, because its flow cannot be: {first}") for error in errors]


def _refused_place(one: FlowJob, before: dict[JobRef, bool]) -> str | None:
    """What is wrong with a job among those that come before it, which tells whether each of them waits for children."""
    if one.ref in before:
        return f"two jobs of the flow are {one.job.id!r} in queue {one.queue!r}: each needs an id of its own"
    if one.job.deduplication is not None:
        return f"job {one.job.id!r} is part of a flow and has a deduplication: another job would stand for it unseen"
    parent = one.job.parent
    if parent is not None and before.get(parent.job) is False:
        return f"job {one.job.id!r} is a child of {parent.job.id!r}, which does not wait for children"
    if one.waits and one.job.lifo:
        return f"job {one.job.id!r} waits for children, so that lifo=True says nothing: leave it out"
    return None
