"""What one holds of a job that was enqueued: its id, and the way to what becomes of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar, cast

from homing.client.client import Client
from homing.errors import JobFailed, ResultTimeout
from homing.ids import JobId
from homing.queue.browse import JobState, ShownJob
from homing.queue.following import read_value
from homing.queue.notes import LogPage

R = TypeVar("R")

_CHANGED = "whether it was done is not known, look at the job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle(Generic[R]):
    """A job in its queue. It holds nothing open, and may be made again from the id, by `queue.job(id)`.

    `deduplicated`: the job was there already and stands for the one that was to be added. Calls raise `ServerUnavailable` within two
    seconds when Redis is away, except `result`, which waits.
    """

    queue: str
    id: JobId
    deduplicated: bool = False
    _client: Callable[[], Client] = field(repr=False, compare=False)
    _since_ms: int | None = field(default=None, repr=False, compare=False)

    async def result(self, timeout: timedelta | float | None = None) -> R:  # noqa: ASYNC109 - the end of waiting is the caller's to name
        """Wait for the end of the job, which may have come already, and return what its handler returned, as JSON gives it back.

        Raises `JobFailed` with the reason of a job that failed for good, `JobGone` for one that was removed or whose end is no longer kept,
        and `ResultTimeout` after `timeout` (a duration, or seconds): the job goes on, and the result may be asked for again. A Redis that is
        away meanwhile is waited for: a job that ended in that time is not missed.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            async with asyncio.timeout(seconds):
                end = await self._client().ends(self.queue).end_of(self.id, self._since_ms)
        except TimeoutError as error:
            raise ResultTimeout(
                f"job {str(self.id)!r} of queue {self.queue} has not ended within {seconds:g} s; it goes on"
            ) from error
        if end.result is None:
            raise JobFailed(f"job {str(self.id)!r} of queue {self.queue} failed: {end.reason}", reason=end.reason)
        return cast("R", read_value(end.result))

    async def show(self) -> ShownJob | None:
        """The job with everything that is stored of it; `None` when there is none (any more)."""
        client = self._client()
        return await client.ask(client.engine.show(self.queue, self.id), "nothing was changed")

    async def state(self) -> JobState | None:
        """Where the job is; `None` when there is none (any more)."""
        shown = await self.show()
        return None if shown is None else shown.state

    async def progress(self) -> object:
        """What the run told last; `None` before it told anything."""
        shown = await self.show()
        return None if shown is None else read_value(shown.fields.get("progress"))

    async def logs(self, *, first: int = 0, most: int = 100) -> LogPage:
        """Lines of the job's own log, from the line with this number."""
        client = self._client()
        call = client.engine.read_lines(self.queue, self.id, first=first, most=most)
        return await client.ask(call, "nothing was changed")

    async def promote(self) -> bool:
        """Let the job wait to be claimed now; `False` when it is not delayed."""
        client = self._client()
        return await client.ask(client.engine.promote(self.queue, self.id), _CHANGED)

    async def retry(self) -> bool:
        """Let the job run again with all its attempts; `False` when it has not failed."""
        client = self._client()
        return await client.ask(client.engine.rerun(self.queue, self.id), _CHANGED)

    async def remove(self) -> bool:
        """Take the job away; `False` while it runs. That of an open delivery comes back: `homing jobs cancel` ends one for good."""
        client = self._client()
        return await client.ask(client.engine.remove(self.queue, self.id), _CHANGED)
