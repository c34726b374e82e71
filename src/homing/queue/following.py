"""What happens in a queue, one thing after the other: BullMQ's events, as they were written, or the word that some are missing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from homing.ids import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEvent:
    """One thing that happened. `id`: its place, from which another stream can go on; `at`: when, by the engine's clock.

    `kind` is BullMQ's word: `added`, `waiting`, `delayed`, `active`, `progress`, `completed`, `failed`, `removed`, `deduplicated`, `stalled`,
    `paused`, `resumed`, `drained` and what later versions add. `job_id` is `None` for what concerns the whole queue. `fields` has the rest.
    """

    id: str
    at: datetime | None
    kind: str
    job_id: JobId | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def result(self) -> Any:
        """The result of a job that is `completed`, read from JSON; text that is none is left as it is."""
        return read_value(self.fields.get("returnvalue"))

    @property
    def progress(self) -> Any:
        """What a job that shows `progress` told last, as `result`."""
        return read_value(self.fields.get("data"))

    @property
    def reason(self) -> str:
        """Why a job `failed`."""
        return self.fields.get("failedReason", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsMissed:
    """What happened after `after` is not known in full: the engine keeps the last events only (10,000 unless set), or lost its data.

    What follows is again in order.
    """

    after: str


class EventStream(Protocol):
    """The events of one queue, from where it was opened. Iterate over it inside `async with`; it ends when it is closed.

    A connection that breaks is made again, and reading goes on behind the last event: none is told twice and none is left out without an
    `EventsMissed` in its place. An iteration may be cancelled and begun again.
    """

    @property
    def position(self) -> str:
        """The id of the last event that was handed out; a later stream that is opened with it goes on there."""
        ...

    async def __aenter__(self) -> Self:
        """Connect and find the place: what happens from now on is seen. `ServerUnavailable` when it cannot be found now."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the connection."""
        ...

    def __aiter__(self) -> Self:
        """Itself."""
        ...

    async def __anext__(self) -> QueueEvent | EventsMissed:
        """The next one, however long that takes."""
        ...


class Following(Protocol):
    """An engine that tells what happens in it."""

    def follow(self, queue: str, *, after: str | None = None) -> EventStream:
        """A stream of the queue's events: those behind `after`, or those that happen from when it is opened."""
        ...


def read_value(text: str | None) -> Any:
    """A value from JSON; anybody may have written something else, which is handed on as text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
