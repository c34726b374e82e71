"""What a job that waits for its children waits for, as the engine shows it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from homing.queue.browse import JobState, ListedJob, QueueTerms, SteeredEngine
from homing.queue.parent import JobRef

MOST_CHILDREN = 5
"""Children that are looked at one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFacts:
    """One child that has not ended; without a name where it is not there, or of another key prefix."""

    ref: JobRef
    job: ListedJob
    is_parked: bool = False
    is_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenFacts:
    """How many children there are, how many of them have not ended, and some of those."""

    count: int
    pending: int
    some: tuple[ChildFacts, ...] = ()


async def read_children_facts(engine: SteeredEngine, ref: JobRef) -> ChildrenFacts:
    """Ask the engine what a job waits for."""
    family = await engine.family(ref.queue, ref.id, most=MOST_CHILDREN)
    some = await asyncio.gather(*(_read(engine, child) for child in sorted(family.pending, key=lambda one: one.id)))
    return ChildrenFacts(count=family.count, pending=family.pending_count, some=tuple(some))


async def _read(engine: SteeredEngine, ref: JobRef) -> ChildFacts:
    if not ref.queue:
        return ChildFacts(ref=ref, job=ListedJob(id=ref.id, name=None, state=None))
    (job,), terms, parked = await asyncio.gather(
        engine.glance(ref.queue, [ref.id]), engine.terms(ref.queue), engine.parked(ref.queue)
    )
    names = [kind.kind.job for kind in parked]
    return ChildFacts(ref=ref, job=job, is_parked=_is_parked(job, names), is_paused=_is_paused(job, terms))


def _is_parked(job: ListedJob, names: Sequence[str]) -> bool:
    return job.state is JobState.DELAYED and job.name in names


def _is_paused(job: ListedJob, terms: QueueTerms) -> bool:
    return terms.paused and job.state is not JobState.FAILED
