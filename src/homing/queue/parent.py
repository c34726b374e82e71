"""Whom a job is a child of."""

from dataclasses import dataclass
from typing import Literal

from homing.ids import JobId

OnFailure = Literal["fail", "continue", "ignore", "remove"]
"""What the death of a child means to its parent: it `fail`s too, at once; it `continue`s at once, without waiting for the others; it
`ignore`s that, waits for the others and is told; it waits for the others and is told nothing, since the child is `remove`d from it."""


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job, wherever it is. An empty `queue` is one of another key prefix, and `id` its whole key."""

    queue: str
    id: JobId


@dataclass(frozen=True, slots=True)
class Parent:
    """The job that waits for this one, and what the death of this one means to it."""

    job: JobRef
    on_failure: OnFailure = "fail"
