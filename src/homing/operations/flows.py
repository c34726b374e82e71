"""Flows as people see them: a job, what it waits for, what that came to, and so on down the tree."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from homing.ids import JobId
from homing.ledger.ledger import Ledger
from homing.operations.jobs import show_job
from homing.queue.browse import JobState, ListedJob, SteeredEngine
from homing.queue.flows import Dependencies
from homing.queue.parent import JobRef

MOST_CHILDREN = 50
"""Children that are shown of each job, of each kind: what it still waits for, what failed, what is done."""

MOST_JOBS = 500
"""Jobs of one tree that are shown."""

MOST_LEVELS = 10
"""Levels of one tree that are shown, and parents that are climbed to its root."""


class Counts(Enum):
    """As what a child counts in its parent."""

    PENDING = "waited for"
    FATAL = "failed, and its parent with it"
    FORGIVEN = "failed, and its parent goes on"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode:
    """One job of a tree. Anybody may have written it.

    `job`: how the engine lists it; without a name where it is not there any more, or belongs to another prefix (`queue` is empty then, and
    the id its whole key). `counts`: as what its parent counts it, `None` for the root. `value` is what it returned, which should be JSON
    text; `failure` why it failed. `asked`: the tree was asked for by its id. `hidden`: how many of its children are not shown.
    """

    queue: str
    job: ListedJob
    counts: Counts | None = None
    value: str | None = None
    failure: str = ""
    children: tuple["FlowNode", ...] = ()
    hidden: int = 0
    asked: bool = False

    @property
    def ref(self) -> JobRef:
        """Where it is."""
        return JobRef(self.queue, self.job.id)

    def walk(self) -> "Iterator[tuple[int, FlowNode]]":
        """The tree from the top down, each job with its level, from 0."""
        yield 0, self
        for child in self.children:
            yield from ((level + 1, job) for level, job in child.walk())


async def read_flow(
    ledger: Ledger,
    engine: SteeredEngine,
    job_id: JobId,
    queue: str | None = None,
    *,
    most_children: int = MOST_CHILDREN,
) -> FlowNode | None:
    """The whole tree that a job is in, from its root; `None` for a job that is in none.

    Raises `UnknownId` for an id that no queue has, `Refused` where several have it. At most `MOST_JOBS` jobs are shown, level by level.
    """
    where, _ = await show_job(ledger, engine, job_id, queue)
    asked = JobRef(where, job_id)
    root = await _root(engine, asked)
    tree = await _Reader(engine, min(most_children, MOST_CHILDREN)).read(root)
    return None if root == asked and not tree.children and not tree.hidden else _mark(tree, asked)


async def read_children(engine: SteeredEngine, ref: JobRef, *, most_children: int = MOST_CHILDREN) -> FlowNode:
    """One job with its children, and nothing below them: for pages that open a tree step by step."""
    return await _Reader(engine, most_children).read(ref, most_levels=1)


async def remove_with_children(engine: SteeredEngine, ref: JobRef) -> bool:
    """Remove a job, and those below it that have not begun; `False` when it runs itself, and what is below it goes all the same.

    From the top down: a child that is removed while its parent is there wakes it.
    """
    below = [ref]
    for one in below:
        found = await engine.family(one.queue, one.id)
        below += [child for child in found.pending if child.queue and child not in below]
    removed = await engine.remove(ref.queue, ref.id)
    await asyncio.gather(*(engine.remove(one.queue, one.id) for one in below[1:]))
    return removed


async def _root(engine: SteeredEngine, ref: JobRef) -> JobRef:
    """The job at the top, as far as it can be climbed to: a parent that is gone, or of another prefix, leaves its child on top."""
    for _ in range(MOST_LEVELS):
        parent = (await engine.family(ref.queue, ref.id, most=1)).parent
        if parent is None or not parent.queue:
            break
        if (await engine.glance(parent.queue, [parent.id]))[0].name is None:
            break
        ref = parent
    return ref


@dataclass(slots=True)
class _Open:
    """A job of the tree under construction."""

    ref: JobRef
    counts: Counts | None = None
    value: str | None = None
    failure: str = ""
    job: ListedJob | None = None
    hidden: int = 0
    children: list["_Open"] = field(default_factory=list)

    def close(self) -> FlowNode:
        """The job as it is shown, with those below it."""
        return FlowNode(
            queue=self.ref.queue,
            job=self.job or ListedJob(id=self.ref.id, name=None, state=None),
            counts=self.counts,
            value=self.value,
            failure=self.failure or (self.job.reason if self.job and self.job.state is JobState.FAILED else ""),
            children=tuple(child.close() for child in self.children),
            hidden=self.hidden,
        )


class _Reader:
    """Reads a tree level by level, so that what lies near the top is shown first."""

    def __init__(self, engine: SteeredEngine, most_children: int) -> None:
        self._engine = engine
        self._most = most_children
        self._left = MOST_JOBS
        self._seen: set[JobRef] = set()

    async def read(self, ref: JobRef, most_levels: int = MOST_LEVELS) -> FlowNode:
        root = _Open(ref)
        level = [root]
        for _ in range(most_levels):
            level = await self._below(level)
            if not level:
                break
        else:
            await self._look(level)
        return root.close()

    async def _below(self, level: Sequence[_Open]) -> list[_Open]:
        """Look at the jobs of a level, and open those below it."""
        await self._look(level)
        ours = [one for one in level if one.ref.queue and one.ref not in self._seen]
        self._seen.update(one.ref for one in ours)
        families = await asyncio.gather(*(self._engine.family(*_words(one.ref), most=self._most) for one in ours))
        for one, found in zip(ours, families, strict=True):
            children = list(_children(found))[: self._left]
            one.children, one.hidden = children, max(0, found.count - len(children))
            self._left -= len(children)
        return [child for one in ours for child in one.children]

    async def _look(self, level: Sequence[_Open]) -> None:
        by_queue: dict[str, list[_Open]] = defaultdict(list)
        for one in level:
            if one.ref.queue:
                by_queue[one.ref.queue].append(one)
        for queue, members in by_queue.items():
            for one, job in zip(
                members, await self._engine.glance(queue, [one.ref.id for one in members]), strict=True
            ):
                one.job = job


def _words(ref: JobRef) -> tuple[str, JobId]:
    return ref.queue, ref.id


def _children(found: Dependencies) -> Iterator[_Open]:
    """What matters most comes first: what killed, what is waited for, what failed, what is done."""
    yield from (_Open(ref, Counts.FATAL) for ref in sorted(found.fatal, key=_words))
    yield from (_Open(ref, Counts.PENDING) for ref in sorted(found.pending, key=_words))
    for ref in sorted(found.forgiven, key=_words):
        yield _Open(ref, Counts.FORGIVEN, failure=found.forgiven[ref])
    for ref in sorted(found.completed, key=_words):
        yield _Open(ref, Counts.COMPLETED, value=found.completed[ref])


def _mark(tree: FlowNode, asked: JobRef) -> FlowNode:
    children = tuple(_mark(child, asked) for child in tree.children)
    return replace(tree, children=children, asked=tree.ref == asked)
