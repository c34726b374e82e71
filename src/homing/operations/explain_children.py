"""Why a job that waits for its children is not running: which they are, and what holds those up. Pure."""

from collections.abc import Iterator
from datetime import datetime

from homing.operations.explain import NOTHING_TO_DO, Because, Reason
from homing.operations.waiting_children import ChildFacts, ChildrenFacts
from homing.queue.browse import JobState


def children_reasons(children: ChildrenFacts | None, since: datetime | None) -> Iterator[Reason]:
    """That it waits, for how many, and what holds those up that were looked at."""
    if children is None or children.pending == 0:
        yield Reason(
            because=Because.CHILDREN,
            text="it waits for children, and none is left that has not ended",
            remedy="nothing: a relay lets it go on within a minute",
            since=since,
        )
        return
    shown = ", ".join(f"{child.ref.id} ({_state(child)})" for child in children.some)
    more = children.pending - len(children.some)
    yield Reason(
        because=Because.CHILDREN,
        text=f"it waits for {children.pending} of its {children.count} children: {shown}{f' and {more} more' if more else ''}",
        remedy="see below what holds them up, or explain each: `homing jobs explain ID`; `homing jobs show` has the tree",
        since=since,
    )
    for child in children.some:
        yield from _troubles(child)


def _troubles(child: ChildFacts) -> Iterator[Reason]:
    name, queue = child.ref.id, child.ref.queue
    if child.is_paused:
        yield Reason(
            because=Because.PAUSED,
            text=f"queue {queue} of its child {name} is paused",
            remedy=f"`homing queues resume {queue}`; who paused it says `homing actions list`",
        )
    if child.is_parked:
        yield Reason(
            because=Because.PARKED,
            text=f"no worker that met its child {name} knows jobs called {child.job.name}",
            remedy="deploy the code that knows it; `homing jobs cancel` ends the child, and its parent is told",
            since=child.job.added_at,
        )
    elif child.job.state is JobState.FAILED:
        yield Reason(
            because=Because.FAILED,
            text=f"its child {name} has failed, and nothing was said of what that means: {child.job.reason}",
            remedy="`homing jobs retry` runs the child again, `homing jobs remove` lets its parent go on without it",
            since=child.job.finished_at,
        )
    elif child.ref.queue and child.job.name is None:
        yield Reason(
            because=Because.NO_JOB,
            text=f"its child {name} is not there any more",
            remedy=NOTHING_TO_DO + ": a relay finds that out within a minute",
        )


def _state(child: ChildFacts) -> str:
    if not child.ref.queue:
        return "under another key prefix"
    if child.job.name is None:
        return f"lost, in queue {child.ref.queue}"
    state = "in no list" if child.job.state is None else child.job.state.value
    return f"{state}, in queue {child.ref.queue}"
