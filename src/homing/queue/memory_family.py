"""The children of a job in memory, by what they came to."""

from dataclasses import dataclass, field
from itertools import islice

from homing.queue.flows import Dependencies
from homing.queue.parent import JobRef, Parent


@dataclass(slots=True)
class Family:
    """A job's children: those whose end it waits for, what the others returned, and why they failed. `parent`: whose child it is itself."""

    parent: Parent | None = None
    pending: dict[JobRef, None] = field(default_factory=dict)
    completed: dict[JobRef, str] = field(default_factory=dict)
    forgiven: dict[JobRef, str] = field(default_factory=dict)
    fatal: dict[JobRef, None] = field(default_factory=dict)

    def takes_back(self, child: JobRef) -> bool:
        """A child that failed runs again: its end is waited for again, where it counted."""
        if child not in self.fatal and child not in self.forgiven:
            return False
        self.fatal.pop(child, None)
        self.forgiven.pop(child, None)
        self.pending[child] = None
        return True

    def let_go(self) -> None:
        """Its job is done, whatever the children come to."""
        self.pending.clear()
        self.fatal.clear()

    def seen(self, most: int | None) -> Dependencies:
        """The family as people and parents see it."""
        return Dependencies(
            parent=None if self.parent is None else self.parent.job,
            pending=tuple(islice(self.pending, most)),
            completed=dict(islice(self.completed.items(), most)),
            forgiven=dict(islice(self.forgiven.items(), most)),
            fatal=tuple(islice(self.fatal, most)),
            pending_count=len(self.pending),
            completed_count=len(self.completed),
            forgiven_count=len(self.forgiven),
            fatal_count=len(self.fatal),
        )
