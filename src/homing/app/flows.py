"""What a handler says of jobs that its own job waits for, and what it learns of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from homing.events.event import Event
from homing.queue.parent import OnFailure


@dataclass(frozen=True, slots=True)
class Child:
    """A job that another one waits for.

    `handler`: who runs it, the handler itself or its name (`shipping.ship-parcel`), which may be that of a consumer in another system.
    `event`: what it is about; it is recorded nowhere else. `key`: its name among the children of its parent, always the same for the same
    child; left out, the name of its job and the id of what the event is about. `on_failure`: what its death means to its parent: by
    default that dies too, at once. `continue`: the parent runs at once and is told; `ignore`: it waits for the others and is told;
    `remove`: it waits for the others and is told nothing. `delay` (a duration, or seconds) and `priority` are those of any job.
    `children`: jobs that it waits for itself, before it runs.
    """

    handler: Callable[..., Any] | str
    event: Event
    key: str | None = None
    on_failure: OnFailure = "fail"
    delay: timedelta | float = 0.0
    priority: int = 0
    children: Sequence["Child"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """What the children of a job came to, by their keys.

    `values`: what each returned. `failures`: why, for those that died and whose parent goes on all the same; one that a person cancelled is
    among them. `pending`: those that are still at work, where one that is to `continue` has died; nobody waits for them any more.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()


class Flow(Protocol):
    """The children of the job that a handler runs. Ask for it as a parameter of an `async def`: `flow: Flow`.

    A run that has to wait ends there: its slot is free, its transaction is rolled back, and when the children have ended the handler is called
    again from its beginning, and gets their values where it waited. What stands before that must bear to be done again.
    """

    async def wait_for(self, *children: Child) -> Children:
        """Add those children that are not there yet, all in one step, and wait until they have ended.

        Called again, after a crash or with Redis flushed in between, the same keys mean the same children: what one has done is kept in the
        ledger, and counts. A child that died ends this job, as `on_failure` says. Raises `FlowError` for children that cannot be.
        """
        ...

    async def children(self) -> Children:
        """What the children came to that were added together with this job."""
        ...


class SyncFlow(Protocol):
    """The same for a plain `def`, which runs in a thread: `flow: SyncFlow`. Its calls wait without `await`."""

    def wait_for(self, *children: Child) -> Children:
        """As `Flow.wait_for`."""
        ...

    def children(self) -> Children:
        """As `Flow.children`."""
        ...
